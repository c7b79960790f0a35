package main

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// passExtenders returns the nodes that every interested extender lets pass; each sees what the one
// before it has left. What they say about the others goes into the diagnosis.
//
// Nodes that come back whole (without nodeCacheCapable) are to the scheduler itself nodes on which
// nothing runs, and so it scores them. That is the one thing put right here.
func (s *realScheduler) passExtenders(pod *v1.Pod, nodes []fwk.NodeInfo, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	for _, extender := range s.Extenders {
		if len(nodes) == 0 || !extender.IsInterested(pod) {
			continue
		}
		left, failed, unresolvable, err := extender.Filter(pod, nodes)
		if err != nil && extender.IsIgnorable() {
			continue
		}
		if err != nil {
			return nil, err
		}
		for name, text := range failed {
			diagnosis.NodeToStatus.Set(name, fwk.NewStatus(fwk.Unschedulable, text))
		}
		for name, text := range unresolvable {
			diagnosis.NodeToStatus.Set(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text))
		}
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n fwk.NodeInfo) bool { return !contains(left, n.Node().Name) })
	}
	return nodes, nil
}

// comeBackWhole tells whether an extender gives back nodes instead of their names.
func (s *realScheduler) comeBackWhole(pod *v1.Pod) bool {
	return slices.ContainsFunc(s.Extenders, func(e fwk.Extender) bool {
		return e.IsFilter() && e.IsInterested(pod) && slices.ContainsFunc(s.extenders, func(c config.Extender) bool {
			return c.URLPrefix == e.Name() && !c.NodeCacheCapable
		})
	})
}

// addExtenderScores adds what extenders say to the scores of plugins, up to 100 like those. They are
// asked only where there is a choice.
func (s *realScheduler) addExtenderScores(pod *v1.Pod, nodes []fwk.NodeInfo, answers []NodeAnswer) {
	if len(nodes) < 2 {
		return
	}
	for _, extender := range s.Extenders {
		if !extender.IsPrioritizer() || !extender.IsInterested(pod) {
			continue
		}
		scores, weight, err := extender.Prioritize(pod, nodes)
		if err != nil {
			continue // as the scheduler does, ignorable or not
		}
		for i := range answers {
			answers[i].Scores[extender.Name()] = Score{} // added to a node that it leaves out
		}
		for _, said := range *scores {
			i := slices.IndexFunc(answers, func(a NodeAnswer) bool { return a.Node == said.Host })
			if i < 0 {
				continue
			}
			score := said.Score * fwk.MaxNodeScore / extenderv1.MaxExtenderPriority
			answers[i].Scores[extender.Name()] = Score{Normalized: score, Weighted: score * weight}
			*answers[i].Total += score * weight
		}
	}
}

// reviewed returns the candidates that extenders leave, with their victims. PostFilter has chosen
// one of them before, so whoever fails here may be ignored.
func (s *realScheduler) reviewed(pod *v1.Pod, fw framework.Framework, evaluator *preemption.Evaluator, candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	victims := evaluator.CandidatesToVictimsMap(candidates)
	for _, extender := range s.Extenders {
		if len(victims) == 0 || !extender.SupportsPreemption() || !extender.IsInterested(pod) {
			continue
		}
		left, err := extender.ProcessPreemption(pod, victims, fw.SnapshotSharedLister().NodeInfos())
		if err != nil {
			continue
		}
		maps.DeleteFunc(left, func(_ string, v *extenderv1.Victims) bool { return v == nil || len(v.Pods) == 0 })
		victims = left
	}
	return victims
}
