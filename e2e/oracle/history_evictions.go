package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

var errRefused = errors.New("the API server refuses")

// evictions are the deletions of victims that are under way. The history's mutex guards all of it.
type evictions struct {
	executors []*preemption.Executor
	// byPreemptor has the goroutine of each preemptor.
	byPreemptor map[types.UID]*clearing
	// byVictim has the deletions without an answer.
	byVictim map[string][]*deletion
	// conditions are those that were last written, and begun those of the deletions of the present
	// step. Stowage requests a deletion once, for any number of preemptors.
	conditions, begun map[string]*Condition
	// refusesAll is true after the end of the history.
	refusesAll bool
}

// clearing is a goroutine that evicts the victims of a preemptor: all but one at once, then that one.
type clearing struct {
	preemptor types.UID
	// wanted is the number of victims. The deletions of some have begun, some of these wait for an
	// answer, and some have ended.
	wanted, begun, waiting, ended int
	failed, activated             bool
}

// clearingKey is the key of a context's clearing.
type clearingKey struct{}

type deletion struct {
	clearing *clearing
	answer   chan error
}

// isQuiet tells whether nothing more happens without an answer of the API server.
func (c *clearing) isQuiet() bool {
	if c.begun-c.ended != c.waiting {
		return false
	}
	switch first := max(c.wanted-1, 1); {
	case c.ended < first:
		return c.begun >= first
	case c.failed:
		return c.activated
	default:
		return c.begun == c.wanted
	}
}

func (c *clearing) isOver() bool {
	return c.ended == c.wanted || c.failed && c.activated
}

// watchPreemption learns what the goroutines do that evict victims.
func (h *history) watchPreemption() {
	h.evictions = &evictions{byPreemptor: map[types.UID]*clearing{}, byVictim: map[string][]*deletion{}, conditions: map[string]*Condition{}}
	for _, fw := range h.Profiles {
		fw.SetPodActivator(&noticedActivator{h.queue, h})
		for _, plugin := range fw.PreEnqueuePlugins() {
			if preempts, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
				h.watchExecutor(preempts.Executor)
			}
		}
	}
}

func (h *history) watchExecutor(executor *preemption.Executor) {
	h.evictions.executors = append(h.evictions.executors, executor)
	preempt := executor.PreemptPod
	executor.PreemptPod = func(ctx context.Context, c preemption.Candidate, preemptor preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) error {
		clearing := h.evictionBegins(c, preemptor.UID(), victim)
		err := preempt(context.WithValue(ctx, clearingKey{}, clearing), c, preemptor, victim, plugin)
		h.mutex.Lock()
		defer h.mutex.Unlock()
		clearing.ended++
		clearing.failed = clearing.failed || err != nil
		return err
	}
}

func (h *history) evictionBegins(c preemption.Candidate, preemptor types.UID, victim *v1.Pod) *clearing {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	found := h.evictions.byPreemptor[preemptor]
	if found == nil {
		found = &clearing{preemptor: preemptor}
		h.evictions.byPreemptor[preemptor] = found
		h.tried.Victims = []string{}
		for _, pod := range c.Victims().Pods {
			h.tried.Victims = append(h.tried.Victims, key(pod))
			if pod.DeletionTimestamp == nil {
				found.wanted++
			}
		}
		slices.Sort(h.tried.Victims)
	}
	delete(h.evictions.conditions, key(victim))
	return found
}

// awaitEvictions returns once the goroutine that the attempt has started waits for answers.
func (h *history) awaitEvictions() error {
	if !h.isPreempting(h.triedUID) {
		return nil
	}
	return h.await(func() bool {
		found := h.evictions.byPreemptor[h.triedUID]
		return found != nil && found.isQuiet()
	})
}

func (h *history) isPreempting(uid types.UID) bool {
	return slices.ContainsFunc(h.evictions.executors, func(executor *preemption.Executor) bool {
		return executor.IsPodRunningPreemption(uid)
	})
}

// deletion waits for the answer of the API server to the deletion of a victim.
func (h *history) deletion(ctx context.Context, victim string) error {
	clearing, ok := ctx.Value(clearingKey{}).(*clearing)
	if !ok {
		return errors.New("only victims are deleted")
	}
	waiting := &deletion{clearing, make(chan error)}
	h.mutex.Lock()
	clearing.begun++
	if h.evictions.refusesAll {
		h.mutex.Unlock()
		return errRefused
	}
	if h.isLeaving(victim) {
		h.mutex.Unlock()
		return nil
	}
	if len(h.evictions.byVictim[victim]) == 0 {
		h.evictions.begun[victim] = h.evictions.conditions[victim]
	}
	clearing.waiting++
	h.evictions.byVictim[victim] = append(h.evictions.byVictim[victim], waiting)
	h.mutex.Unlock()
	return <-waiting.answer
}

// isLeaving tells whether a pod is gone or terminating.
func (h *history) isLeaving(name string) bool {
	obj, exists, err := h.informers["Pod"].GetIndexer().GetByKey(name)
	if err != nil || !exists {
		return true
	}
	pod, ok := obj.(*v1.Pod)
	return ok && pod.DeletionTimestamp != nil
}

func (h *history) answerEviction(victim string, refuses bool) error {
	h.mutex.Lock()
	found := h.evictions.byVictim[victim]
	delete(h.evictions.byVictim, victim)
	h.mutex.Unlock()
	if len(found) == 0 {
		return fmt.Errorf("no eviction of %s is under way", victim)
	}
	for _, each := range found {
		if err := h.answerDeletion(each, refuses); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) answerDeletion(d *deletion, refuses bool) error {
	var answer error
	if refuses {
		answer = errRefused
	}
	h.mutex.Lock()
	d.clearing.waiting--
	h.mutex.Unlock()
	d.answer <- answer
	err := h.await(func() bool { return d.clearing.isQuiet() })
	if err != nil || !d.clearing.isOver() {
		return err
	}
	if err := h.await(func() bool { return !h.isPreempting(d.clearing.preemptor) }); err != nil {
		return err
	}
	h.openGate(d.clearing.preemptor)
	return nil
}

// openGate lets a preemptor wait like others once its victims are evicted, as Stowage does: see
// "Pods gated by a preemption" in docs/parity.md.
func (h *history) openGate(preemptor types.UID) {
	for _, info := range h.infos(h.queue.UnschedulablePods()) {
		if h.groups.preemptorOf(info.Pod) == preemptor && info.GatingPlugin == defaultpreemption.Name {
			info.GatingPlugin, info.GatingPluginEvents = "", nil
		}
	}
}

// refuseEvictions ends the goroutines that still wait at the end of a history.
func (h *history) refuseEvictions() {
	h.mutex.Lock()
	h.evictions.refusesAll = true
	waiting := h.evictions.byVictim
	h.evictions.byVictim = nil
	h.mutex.Unlock()
	for _, deletions := range waiting {
		for _, each := range deletions {
			each.answer <- errRefused
		}
	}
}

// noticedActivator notices the end of a goroutine that could not evict all victims.
type noticedActivator struct {
	fwk.PodActivator
	history *history
}

func (a *noticedActivator) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	a.PodActivator.Activate(logger, pods)
	a.history.mutex.Lock()
	defer a.history.mutex.Unlock()
	for _, pod := range pods {
		if found := a.history.evictions.byPreemptor[a.history.groups.preemptorOf(pod)]; found != nil {
			found.activated = true
		}
	}
}

// patched writes down what is written to the status of the pod that was tried, or of others for it.
func (h *history) patched(pod string, data []byte) error {
	var changed struct {
		Status struct {
			Conditions []Condition `json:"conditions"`
			// NominatedNodeName is null where the patch deletes it, and empty where it leaves it.
			NominatedNodeName           json.RawMessage                    `json:"nominatedNodeName"`
			ExtendedResourceClaimStatus *v1.PodExtendedResourceClaimStatus `json:"extendedResourceClaimStatus"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &changed); err != nil {
		return err
	}
	var condition *Condition
	for _, each := range changed.Status.Conditions {
		condition = &each
	}
	nomination := changed.Status.NominatedNodeName
	var name string
	if len(nomination) > 0 {
		if err := json.Unmarshal(nomination, &name); err != nil {
			return err
		}
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if mapped := changed.Status.ExtendedResourceClaimStatus; mapped != nil {
		note := claimMapped{Claim: mapped.ResourceClaimName}
		if mapped.RequestMappings == nil {
			// They are as before, and no part of the patch.
			mapped.RequestMappings = h.requestMappings(pod)
		}
		for _, each := range mapped.RequestMappings {
			note.Mapped = append(note.Mapped, each.ContainerName+" "+each.ResourceName+" "+each.RequestName)
		}
		return h.answered(pod, note, &v1.Pod{})
	}
	if member := h.groups.member(pod); member != nil {
		if condition != nil {
			member.Condition = condition
		}
		return nil
	}
	if condition == nil && h.groups.has(pod) {
		// A member that waits in Permit for the next ones is nominated by chance: they follow at once.
		return nil
	}
	switch {
	case h.tried != nil && h.tried.Pod == pod:
		if condition != nil {
			h.tried.Condition = condition
		}
		// A pod whose PreBind only writes claims is not nominated by Stowage: see docs/parity.md.
		if len(nomination) > 0 && (condition != nil || name == "" || !h.isAssumed(pod) || h.hasOnlyVolumes(pod) || h.claims.conditioned[h.uids[pod]]) {
			h.tried.Nomination = &name
		}
	case condition != nil:
		h.evictions.conditions[pod] = condition
	case h.tried != nil:
		h.tried.Displaced = append(h.tried.Displaced, pod)
		slices.Sort(h.tried.Displaced)
	}
	return nil
}
