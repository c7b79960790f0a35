package main

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// PreemptionAnswer says who would be evicted where.
type PreemptionAnswer struct {
	NominatedNode string            `json:"nominatedNode"`
	Victims       []string          `json:"victims"`
	Candidates    []CandidateAnswer `json:"candidates"`
	Message       string            `json:"message"`
}

// CandidateAnswer is a node that could be cleared.
type CandidateAnswer struct {
	Node          string   `json:"node"`
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
}

const preemptionPrefix = "preemption: "

// tryAllNodes makes every node that may help a candidate, so that answers do not depend on chance.
func tryAllNodes(cfg *config.KubeSchedulerConfiguration) {
	for _, profile := range cfg.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*config.DefaultPreemptionArgs); ok {
				args.MinCandidateNodesPercentage = 100
			}
		}
	}
}

// preempt runs the PostFilter plugins, and, when they nominate a node, the dry run once more to
// learn the victims: the plugins do not tell.
func (s *realScheduler) preempt(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *v1.Pod, statuses *framework.NodeToStatus) (*PreemptionAnswer, error) {
	answer := &PreemptionAnswer{Victims: []string{}, Candidates: []CandidateAnswer{}}
	result, status := fw.RunPostFilterPlugins(ctx, state, pod, statuses)
	if !status.IsSuccess() {
		answer.Message = status.Message()
		for _, reason := range status.Reasons() {
			if tail, found := strings.CutPrefix(reason, preemptionPrefix); found {
				answer.Message = tail
			}
		}
		return answer, nil
	}
	answer.NominatedNode = result.NominatedNodeName
	nodes, err := statuses.NodesForStatusCode(fw.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, err
	}
	pdbs, err := fw.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	args := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 100}
	plugin, err := defaultpreemption.New(ctx, args, fw, plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	candidates, _, err := plugin.Evaluator.DryRunPreemption(ctx, state, pod, nodes, pdbs, 0, int32(len(nodes)))
	if err != nil && len(candidates) == 0 {
		return nil, err
	}
	for node, victims := range s.reviewed(pod, fw, plugin.Evaluator, candidates) {
		found := CandidateAnswer{Node: node, Victims: []string{}, PDBViolations: victims.NumPDBViolations}
		for _, victim := range victims.Pods {
			found.Victims = append(found.Victims, victim.Namespace+"/"+victim.Name)
		}
		if found.Node == answer.NominatedNode {
			answer.Victims = found.Victims
		}
		answer.Candidates = append(answer.Candidates, found)
	}
	return answer, nil
}
