package main

import (
	"context"
	"errors"
	"reflect"
	_ "unsafe" // for what has no exported name

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Attempt is one choice of a node that the scheduler made by itself.
type Attempt struct {
	Pod       string `json:"pod"`
	Host      string `json:"host"`
	Evaluated int    `json:"evaluated"`
	Feasible  int    `json:"feasible"`
	// Next is the index at which the next search begins.
	Next  int64  `json:"next"`
	Error string `json:"error,omitempty"`
}

// SamplingAnswer has the order in which nodes are searched, and the attempts of all waiting pods in
// the order of the case. No pod is added to the cluster.
type SamplingAnswer struct {
	AdmittedAnswer
	Order    []string  `json:"order"`
	Attempts []Attempt `json:"attempts"`
	Error    string    `json:"error,omitempty"`
}

func samplingLine(line []byte) any {
	result, err := answerSampling(line)
	if err != nil {
		return SamplingAnswer{Error: err.Error()}
	}
	return result
}

func answerSampling(line []byte) (*SamplingAnswer, error) {
	c, err := caseFromJSON(line)
	if err != nil {
		return nil, err
	}
	if err := c.resolveTemplates(); err != nil {
		return nil, err
	}
	result := &SamplingAnswer{}
	if !result.admit(c) {
		return result, nil
	}
	objects := c.schedulerObjects()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := c.start(ctx, objects)
	if err != nil {
		return nil, err
	}
	for pod := range pending(objects) {
		fw := s.Profiles[pod.Spec.SchedulerName]
		if fw == nil || preEnqueue(ctx, fw, pod) != nil {
			continue
		}
		if err := s.updateSnapshot(ctx, fw); err != nil {
			return nil, err
		}
		if result.Order == nil {
			nodes, err := fw.SnapshotSharedLister().NodeInfos().List()
			if err != nil {
				return nil, err
			}
			for _, node := range nodes {
				result.Order = append(result.Order, node.Node().Name)
			}
		}
		attempt, err := s.attempt(ctx, fw, pod)
		if err != nil {
			return nil, err
		}
		result.Attempts = append(result.Attempts, attempt)
	}
	return result, nil
}

func (s *realScheduler) attempt(ctx context.Context, fw framework.Framework, pod *v1.Pod) (Attempt, error) {
	result := Attempt{Pod: pod.Namespace + "/" + pod.Name}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return result, err
	}
	decision, err := s.SchedulePod(ctx, fw, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
	if err != nil && !errors.Is(err, scheduler.ErrNoNodesAvailable) && !isFitError(err) {
		result.Error = err.Error()
	}
	result.Host, result.Evaluated, result.Feasible = decision.SuggestedHost, decision.EvaluatedNodes, decision.FeasibleNodes
	result.Next = s.nextStart()
	return result, nil
}

// nextStart returns the index at which the next search begins: only a private field tells it.
func (s *realScheduler) nextStart() int64 {
	return reflect.ValueOf(s.Scheduler).Elem().FieldByName("nextStartNodeIndex").Int()
}

//go:linkname numFeasibleNodesToFind k8s.io/kubernetes/pkg/scheduler.(*Scheduler).numFeasibleNodesToFind
func numFeasibleNodesToFind(s *scheduler.Scheduler, percentage *int32, count int32) int32

// sampled returns those of the nodes that fit which a search from an index finds, with one worker.
func (s *realScheduler) sampled(fw framework.Framework, start int64, nodes, feasible []fwk.NodeInfo) []fwk.NodeInfo {
	wanted := int(numFeasibleNodesToFind(s.Scheduler, fw.PercentageOfNodesToScore(), int32(len(nodes))))
	if len(feasible) <= wanted {
		return feasible
	}
	found := []fwk.NodeInfo{}
	for i := range nodes {
		node := nodes[(int(start)+i)%len(nodes)]
		if len(found) < wanted && contains(feasible, node.Node().Name) {
			found = append(found, node)
		}
	}
	return found
}
