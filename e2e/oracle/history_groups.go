package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// together is what a history with pod groups adds: a step says which pod is popped next. Otherwise
// kube-scheduler would try a group again after each backoff, and Stowage when something has changed.
// All methods may be called where there is none. The history's mutex guards the present attempt.
type together struct {
	*history
	// known are the groups that pods have named.
	known map[types.NamespacedName]bool
	// placed are members that Stowage leaves waiting, and that could be placed.
	placed     []string
	isIdle     bool
	placements placements

	// order has the members of the present attempt, as Stowage has tried them.
	order     []string
	popped    []*framework.QueuedPodInfo
	members   map[string]*Tried
	condition *Condition
}

// beginTogether prepares for groups if they are scheduled as a whole; it returns what the scheduler
// needs for it.
func (h *history) beginTogether(cfg *config.KubeSchedulerConfiguration) []scheduler.Option {
	if !utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		return nil
	}
	h.groups = &together{history: h, known: map[types.NamespacedName]bool{}}
	if !utilfeature.DefaultFeatureGate.Enabled(features.TopologyAwareWorkloadScheduling) {
		return nil
	}
	return []scheduler.Option{scheduler.WithFrameworkOutOfTreeRegistry(h.groups.placements.adapt(cfg))}
}

// watchGroups lets the steps say which pods are tried, if groups are scheduled as a whole.
func (h *history) watchGroups() {
	if h.groups == nil {
		return
	}
	forgetPodsWithoutNode(h.queue)
	h.SchedulingQueue = &membersQueue{h.queue, h.groups}
	h.client.PrependReactor("patch", "podgroups", h.groups.patched)
}

// membersQueue is the scheduler's queue, but for members that Stowage has not tried. Each member that
// leaves it is written down, with the time of its first attempt that makes members of equal priority
// come in the wanted order.
type membersQueue struct {
	internalqueue.SchedulingQueue
	groups *together
}

func (q *membersQueue) PopSpecificPod(logger klog.Logger, pod *v1.Pod) *framework.QueuedPodInfo {
	place := slices.Index(q.groups.order, key(pod))
	if isMember(pod) && (pod.DeletionTimestamp == nil && place < 0 || pod.DeletionTimestamp != nil && q.groups.isIdle) {
		return nil
	}
	info := q.SchedulingQueue.PopSpecificPod(logger, pod)
	if info == nil || !isMember(info.Pod) {
		return info
	}
	q.groups.mutex.Lock()
	defer q.groups.mutex.Unlock()
	at := time.Unix(int64(place), 0)
	info.InitialAttemptTimestamp = &at
	q.groups.popped = append(q.groups.popped, info)
	q.groups.members[key(pod)] = &Tried{Pod: key(pod)}
	q.groups.failed[pod.UID] = false
	return info
}

// AddNominatedPod nominates no member: its room would be kept in another way than Stowage keeps it, see
// "The nominated node of a member" in docs/parity.md.
func (q *membersQueue) AddNominatedPod(logger klog.Logger, info fwk.PodInfo, nominating *fwk.NominatingInfo) {
	if isMember(info.GetPod()) {
		nominating = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
	}
	q.SchedulingQueue.AddNominatedPod(logger, info, nominating)
}

// preemptorOf returns the UID under which victims are evicted for a pod: that of its group, where
// groups preempt as a whole.
func (t *together) preemptorOf(pod *v1.Pod) types.UID {
	if t == nil || !isMember(pod) || !utilfeature.DefaultFeatureGate.Enabled(features.WorkloadAwarePreemption) {
		return pod.UID
	}
	obj, exists, err := t.informers["PodGroup"].GetIndexer().GetByKey(groupOf(pod).String())
	if group, ok := obj.(*schedulingapi.PodGroup); ok && exists && err == nil {
		return group.UID
	}
	return pod.UID
}

// begin forgets the attempt before.
func (t *together) begin(step historyStep) {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.order, t.popped, t.members, t.condition = step.Members, nil, map[string]*Tried{}, nil
	t.placements.wanted = step.Placement
}

func (t *together) pop(logger klog.Logger, name string) (*framework.QueuedPodInfo, error) {
	var info *framework.QueuedPodInfo
	if pod := t.pod(name); pod != nil {
		info = t.SchedulingQueue.PopSpecificPod(logger, pod)
	}
	if info == nil {
		t.problem, t.isOver = fmt.Errorf("pod %s does not wait, or is gated", name), true
	}
	return info, nil
}

// pod returns a pod as the informer has it.
func (t *together) pod(name string) *v1.Pod {
	obj, exists, err := t.informers["Pod"].GetIndexer().GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	pod, _ := obj.(*v1.Pod)
	return pod
}

// member returns what is told of a member of the present attempt; nothing for other pods.
func (t *together) member(name string) *Tried {
	if t == nil {
		return nil
	}
	return t.members[name]
}

// has tells whether a pod is a member of any group.
func (t *together) has(name string) bool {
	if t == nil {
		return false
	}
	pod := t.pod(name)
	return pod != nil && isMember(pod)
}

// haveEnded tells whether the attempts of all members have ended, or their bindings wait for an answer.
// The mutex is held.
func (t *together) haveEnded() bool {
	return t == nil || !slices.ContainsFunc(t.popped, func(info *framework.QueuedPodInfo) bool {
		return info.Pod.DeletionTimestamp == nil && !t.members[key(info.Pod)].hasEnded()
	})
}

func (t *Tried) hasEnded() bool { return t.Host != "" || t.Reason != "" }

// note remembers the group of a pod.
func (t *together) note(pod *v1.Pod) {
	if t != nil && isMember(pod) {
		t.known[groupOf(pod)] = true
	}
}

// changed has the members of a group look at its gate again, as in Stowage: see "A gated member of a
// pod group" in docs/parity.md.
func (t *together) changed(obj runtime.Object) {
	group, ok := obj.(*schedulingapi.PodGroup)
	if t == nil || !ok {
		return
	}
	members := map[string]*v1.Pod{}
	for _, pod := range t.queue.UnschedulablePods() {
		if isMember(pod) && groupOf(pod) == (types.NamespacedName{Namespace: group.Namespace, Name: group.Name}) {
			members[pod.Name] = pod
		}
	}
	t.queue.Activate(klog.Background(), members)
}

// tell adds the attempt of a group to the answer to a step; the mutex is held.
func (t *together) tell(answer *StepAnswer) {
	if t == nil || len(t.popped) == 0 || answer.Tried == nil {
		return
	}
	answer.Tried.Members, answer.Tried.Group = map[string]*Tried{}, t.condition
	for name, member := range t.members {
		if member.hasEnded() {
			answer.Tried.Members[name] = member
		}
	}
}

// addState adds what holds members back, and what the cache knows of groups.
func (t *together) addState(ctx context.Context, answer *StepAnswer) {
	if t == nil {
		return
	}
	answer.Gates, answer.Groups = map[string]map[string][]string{}, map[string][2]int{}
	answer.Placed, t.placed = t.placed, nil
	for name := range answer.Pods {
		if pod := t.pod(name); pod != nil && isMember(pod) {
			answer.Gates[name] = t.gates(ctx, pod)
		}
	}
	for group := range t.known {
		state, err := t.Cache.PodGroupStates().Get(group.Namespace, group.Name)
		if err == nil {
			answer.Groups[group.String()] = [2]int{state.AllPodsCount(), state.ScheduledPodsCount()}
		}
	}
}

// tryAll tries every group that nothing gates, as kube-scheduler does all the time, and remembers
// those that could be placed.
func (t *together) tryAll(ctx context.Context, step historyStep) error {
	tried := map[types.NamespacedName]bool{}
	t.isIdle = true
	defer func() { t.isIdle = false }()
	for _, name := range step.Members {
		pod := t.pod(name)
		if pod == nil || pod.DeletionTimestamp != nil || tried[groupOf(pod)] || len(t.gates(ctx, pod)) > 0 {
			continue
		}
		tried[groupOf(pod)] = true
		if err := t.try(ctx, historyStep{Pod: name, Members: step.Members}); err != nil {
			return err
		}
		for _, member := range t.members {
			if member.Host != "" {
				t.placed = append(t.placed, member.Pod)
			}
		}
		t.begin(historyStep{})
	}
	t.tried = nil
	slices.Sort(t.placed)
	return nil
}

// patched writes down the condition of a group.
func (t *together) patched(action clienttesting.Action) (bool, runtime.Object, error) {
	conditions, err := patchedConditions(action)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, condition := range conditions {
		t.condition = &condition
	}
	return true, &schedulingapi.PodGroup{}, err
}

func isMember(pod *v1.Pod) bool { return pod.Spec.SchedulingGroup != nil }

func groupOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}
}
