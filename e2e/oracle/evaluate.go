package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// stowageName is the scheduler name that Stowage's built-in profile answers to besides
// kube-scheduler's own.
const stowageName = "stowage"

// answer judges every pending pod of the case on its own.
func answer(c *clusterCase) Answer {
	pods, err := evaluate(c)
	if err != nil {
		return Answer{Pods: []PodAnswer{}, Error: err.Error()}
	}
	return Answer{Pods: pods}
}

func evaluate(c *clusterCase) ([]PodAnswer, error) {
	objects := c.schedulerObjects()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := c.start(ctx, objects)
	if err != nil {
		return nil, err
	}
	answers := []PodAnswer{}
	for pod := range pending(objects) {
		fw := s.Profiles[pod.Spec.SchedulerName]
		if fw == nil {
			continue
		}
		if err := s.updateSnapshot(ctx, fw); err != nil {
			return nil, err
		}
		answers = append(answers, s.judge(ctx, fw, pod, c.preempt))
	}
	slices.SortFunc(answers, func(a, b PodAnswer) int { return strings.Compare(a.Pod, b.Pod) })
	return answers, nil
}

// pending yields the pods that wait for a node.
func pending(objects []runtime.Object) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, obj := range objects {
			pod, ok := obj.(*v1.Pod)
			if ok && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !yield(pod) {
				return
			}
		}
	}
}

// schedulerObjects returns what kube-scheduler sees of the case: its pod informer leaves out
// terminal pods, and without a configuration the default profile also answers to Stowage's name.
func (c *clusterCase) schedulerObjects() []runtime.Object {
	var seen []runtime.Object
	for _, obj := range c.objects {
		pod, ok := obj.(*v1.Pod)
		if !ok {
			seen = append(seen, obj)
			continue
		}
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		if c.rawConfig == nil && pod.Spec.SchedulerName == stowageName {
			pod = pod.DeepCopy()
			pod.Spec.SchedulerName = v1.DefaultSchedulerName
		}
		seen = append(seen, pod)
	}
	return seen
}

// judge runs the scheduling cycle's steps for one pod without stopping early, and compares the
// outcome with the scheduler's own.
func (s *realScheduler) judge(ctx context.Context, fw framework.Framework, pod *v1.Pod, preempts bool) PodAnswer {
	result := PodAnswer{Pod: pod.Namespace + "/" + pod.Name, Profile: fw.ProfileName(), Nodes: []NodeAnswer{}}
	if result.PreEnqueue = preEnqueue(ctx, fw, pod); result.PreEnqueue != nil {
		return result
	}
	nodes, err := fw.SnapshotSharedLister().NodeInfos().List()
	if err == nil {
		err = s.judgeNodes(ctx, fw, pod, nodes, preempts, &result)
	}
	if err == nil {
		err = s.crossCheck(ctx, fw, pod, &result)
	}
	if err != nil {
		result.Nodes = []NodeAnswer{}
		result.Error = err.Error()
	}
	return result
}

func preEnqueue(ctx context.Context, fw framework.Framework, pod *v1.Pod) *Gate {
	for _, plugin := range fw.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			return &Gate{Plugin: plugin.Name(), Reasons: status.Reasons()}
		}
	}
	return nil
}

func (s *realScheduler) judgeNodes(ctx context.Context, fw framework.Framework, pod *v1.Pod, nodes []fwk.NodeInfo, preempts bool, result *PodAnswer) error {
	if len(nodes) == 0 {
		result.Message = scheduler.ErrNoNodesAvailable.Error()
		return nil
	}
	state := framework.NewCycleState()
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	wanted, status, pluginsWithNodes := fw.RunPreFilterPlugins(ctx, state, pod)
	switch {
	case status.IsRejected():
		result.PreFilter = &Rejection{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: status.Reasons()}
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
	case !status.IsSuccess():
		return status.AsError()
	default:
		diagnosis.UnschedulablePlugins = pluginsWithNodes
		feasible, err := filterNodes(ctx, fw, state, pod, nodes, wanted, &diagnosis)
		if err != nil {
			return err
		}
		fitting := feasible
		if feasible, err = s.passExtenders(pod, fitting, &diagnosis); err != nil {
			return err
		}
		if result.Nodes, err = s.scoreNodes(ctx, fw, state, pod, feasible); err != nil {
			return err
		}
		if err := addDevices(ctx, fw, state, pod, result.Nodes); err != nil {
			return err
		}
		for _, node := range nodes {
			name := node.Node().Name
			status := diagnosis.NodeToStatus.Get(name)
			switch {
			case contains(feasible, name):
			case contains(fitting, name):
				result.Nodes = append(result.Nodes, rejected(name, framework.ExtenderName, status))
			default:
				result.Nodes = append(result.Nodes, rejected(name, status.Plugin(), status))
			}
		}
		slices.SortFunc(result.Nodes, func(a, b NodeAnswer) int { return strings.Compare(a.Node, b.Node) })
		if len(feasible) > 0 {
			return nil
		}
	}
	result.Message = (&framework.FitError{Pod: pod, NumAllNodes: len(nodes), Diagnosis: diagnosis}).Error()
	if preempts {
		var err error
		result.Preemption, err = s.preempt(ctx, fw, state, pod, diagnosis.NodeToStatus)
		return err
	}
	return nil
}

// filterNodes asks every wanted node. The pod's own nominated node is asked first, and even when it
// is not wanted: the scheduler tries it before it looks at the set. The plugin that rejects it there
// is named in the reason of the nodes left out, because the scheduler keeps both in one set.
func filterNodes(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, wanted *fwk.PreFilterResult, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	var feasible []fwk.NodeInfo
	filter := func(node fwk.NodeInfo) error {
		status := fw.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
		case status.IsRejected():
			diagnosis.NodeToStatus.Set(node.Node().Name, status)
			diagnosis.AddPluginStatus(status)
		default:
			return status.AsError()
		}
		return nil
	}
	isNominated := func(node fwk.NodeInfo) bool { return node.Node().Name == pod.Status.NominatedNodeName }
	if i := slices.IndexFunc(nodes, isNominated); i >= 0 {
		if err := filter(nodes[i]); err != nil {
			return nil, err
		}
	}
	if !wanted.AllNodes() {
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(diagnosis.UnschedulablePlugins))))
	}
	for _, node := range nodes {
		if isNominated(node) || !wanted.AllNodes() && !wanted.NodeNames.Has(node.Node().Name) {
			continue
		}
		if err := filter(node); err != nil {
			return nil, err
		}
	}
	return feasible, nil
}

func contains(nodes []fwk.NodeInfo, name string) bool {
	return slices.ContainsFunc(nodes, func(n fwk.NodeInfo) bool { return n.Node().Name == name })
}

func (s *realScheduler) scoreNodes(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo) ([]NodeAnswer, error) {
	answers := make([]NodeAnswer, 0, len(feasible))
	if len(feasible) == 0 {
		return answers, nil
	}
	if !fw.HasScorePlugins() && len(s.Extenders) == 0 {
		for _, node := range feasible {
			answers = append(answers, scored(node.Node().Name, nil, nil, 1))
		}
		return answers, nil
	}
	if status := fw.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return nil, status.AsError()
	}
	scores, status := fw.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	weights := map[string]int64{}
	for _, plugin := range fw.ListPlugins().Score.Enabled {
		weights[plugin.Name] = int64(plugin.Weight)
	}
	for _, node := range scores {
		answers = append(answers, scored(node.Name, node.Scores, weights, node.TotalScore))
	}
	s.addExtenderScores(pod, feasible, answers)
	return answers, nil
}

func scored(node string, scores []fwk.PluginScore, weights map[string]int64, total int64) NodeAnswer {
	result := NodeAnswer{Node: node, Feasible: true, Scores: map[string]Score{}, Total: &total}
	for _, score := range scores {
		result.Scores[score.Name] = Score{Normalized: score.Score / weights[score.Name], Weighted: score.Score}
	}
	return result
}

func rejected(node, plugin string, status *fwk.Status) NodeAnswer {
	reasons := append([]string{}, status.Reasons()...)
	return NodeAnswer{Node: node, Plugin: &plugin, Code: status.Code().String(), Reasons: reasons}
}

// samplesFrom is the number of nodes from which on not all of them are looked at.
const samplesFrom = 100

// crossCheck lets the scheduler decide by itself and fails when it saw the cluster differently.
func (s *realScheduler) crossCheck(ctx context.Context, fw framework.Framework, pod *v1.Pod, result *PodAnswer) error {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return err
	}
	decision, err := s.SchedulePod(ctx, fw, framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info})
	if err != nil && !errors.Is(err, scheduler.ErrNoNodesAvailable) && !isFitError(err) {
		return err
	}
	if err != nil {
		if result.Message != err.Error() {
			return fmt.Errorf("oracle: SchedulePod says %q, the framework %q", err, result.Message)
		}
		return nil
	}
	chosen := slices.IndexFunc(result.Nodes, func(n NodeAnswer) bool { return n.Feasible && n.Node == decision.SuggestedHost })
	if chosen < 0 {
		return fmt.Errorf("oracle: SchedulePod chose %s, which the framework rejects", decision.SuggestedHost)
	}
	// Of a nominated node that fits, and of a sample of many, no total is the highest. Nodes that
	// came back whole are scored differently here (see passExtenders).
	if decision.SuggestedHost == pod.Status.NominatedNodeName || len(result.Nodes) >= samplesFrom || s.comeBackWhole(pod) {
		return nil
	}
	for _, node := range result.Nodes {
		if node.Feasible && *node.Total > *result.Nodes[chosen].Total {
			return fmt.Errorf("oracle: SchedulePod chose %s, but %s has a higher total", decision.SuggestedHost, node.Node)
		}
	}
	return nil
}

func isFitError(err error) bool {
	var fitError *framework.FitError
	return errors.As(err, &fitError)
}
