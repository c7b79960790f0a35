package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// groupsCase is a cluster, and in which order its pods and groups are to be tried.
type groupsCase struct {
	// Units are tried one after the other: a single pod, or members of one group.
	Units [][]string `json:"units"`
	// Placements is by unit where its members were placed; "" where they could be anywhere.
	Placements []string `json:"placements"`
}

// GroupsAnswer says what became of each unit, and what holds the pods that were not tried.
type GroupsAnswer struct {
	Units []UnitAnswer                   `json:"units"`
	Gated map[string]map[string][]string `json:"gated"`
	// Ready pods could have been tried and were not.
	Ready []string `json:"ready"`
	Error string   `json:"error,omitempty"`
}

// AdmittedGroupsAnswer is an answer with the objects as the API server holds them.
type AdmittedGroupsAnswer struct {
	AdmittedAnswer
	Groups GroupsAnswer `json:"groups"`
}

// UnitAnswer is one attempt: of a single pod, or of a group as a whole.
type UnitAnswer struct {
	Pods      []MemberAnswer `json:"pods"`
	Condition *Condition     `json:"condition"`
	// Victims were to leave for it, and the texts of their conditions.
	Victims     []string `json:"victims,omitempty"`
	VictimTexts []string `json:"victimTexts,omitempty"`
}

// MemberAnswer is the end of an attempt for one pod. Best are the nodes of which none is better.
type MemberAnswer struct {
	Pod     string   `json:"pod"`
	Host    string   `json:"host"`
	Best    []string `json:"best"`
	Reason  string   `json:"reason,omitempty"`
	Message string   `json:"message,omitempty"`
}

// Condition is that of a group.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Generation is left out where it is not written.
	Generation int64 `json:"observedGeneration,omitempty"`
}

// groupsLine answers a case that has, besides objects as the API server holds them and a
// configuration, units; without them it says how the API server holds the objects.
func groupsLine(line []byte) any {
	result, err := answerGroups(line)
	if err != nil {
		return AdmittedGroupsAnswer{Groups: GroupsAnswer{Error: err.Error()}}
	}
	return result
}

func answerGroups(line []byte) (*AdmittedGroupsAnswer, error) {
	var raw groupsCase
	c, err := caseFromJSON(line, &raw)
	if err != nil {
		return nil, err
	}
	result := &AdmittedGroupsAnswer{}
	result.Answer.Pods = []PodAnswer{}
	if raw.Units == nil {
		result.admit(c)
		return result, nil
	}
	cfg, err := loadConfig(c.rawConfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	objects := c.schedulerObjects()
	trial := &trial{groupsCase: raw, tried: map[types.UID]bool{}}
	options := []scheduler.Option{}
	if utilfeature.DefaultFeatureGate.Enabled(features.TopologyAwareWorkloadScheduling) {
		options = append(options, scheduler.WithFrameworkOutOfTreeRegistry(trial.placements.adapt(cfg)))
	}
	s, err := newScheduler(ctx, cfg, objects, options...)
	if err != nil {
		return nil, err
	}
	trial.watch(s)
	// Groups are known before their pods come: what wakes a member bears on its nomination.
	groups := s.factory.Scheduling().V1alpha2().PodGroups().Informer()
	go groups.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), groups.HasSynced) {
		return nil, errors.New("the informer of groups did not sync")
	}
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	result.Groups, err = trial.run(ctx, objects)
	return result, err
}

// trial has kube-scheduler try units, and writes down what it does. Only three things are not its
// own: the order of the units, that the first of several best nodes is taken, and which placement
// is the first one, and the best of several that are equally good.
type trial struct {
	*realScheduler
	groupsCase
	placements placements
	decide     func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (scheduler.ScheduleResult, error)
	next       *v1.Pod
	order      map[string]int
	popped     []*framework.QueuedPodInfo
	problem    error
	mutex      sync.Mutex
	members    map[types.UID]*MemberAnswer
	sequence   []types.UID
	ended      map[types.UID]bool
	tried      map[types.UID]bool
	conditions []Condition
	victims    []string
	texts      []string
}

// pickyQueue is the scheduler's queue; whichever pod leaves it is written down, with the time of
// its first attempt that makes members of equal priority come in the wanted order.
type pickyQueue struct {
	internalqueue.SchedulingQueue
	trial *trial
}

func (q *pickyQueue) PopSpecificPod(logger klog.Logger, pod *v1.Pod) *framework.QueuedPodInfo {
	info := q.SchedulingQueue.PopSpecificPod(logger, pod)
	if info == nil {
		return nil
	}
	place, known := q.trial.order[key(pod)]
	if !known {
		place = len(q.trial.order)
	}
	at := time.Unix(int64(place), 0)
	info.InitialAttemptTimestamp = &at
	q.trial.popped = append(q.trial.popped, info)
	return info
}

func (t *trial) watch(s *realScheduler) {
	t.realScheduler, t.decide = s, s.SchedulePod
	s.replaceBinders(newIdleBinder)
	s.SchedulingQueue = &pickyQueue{s.SchedulingQueue, t}
	s.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		return s.SchedulingQueue.PopSpecificPod(logger, t.next), nil
	}
	s.SchedulePod = t.schedulePod
	s.FailureHandler = t.fail
	s.client.PrependReactor("create", "pods", t.bind)
	s.client.PrependReactor("patch", "podgroups", t.patchGroup)
	s.client.PrependReactor("delete", "pods", t.evict)
	s.client.PrependReactor("patch", "pods", t.patchVictim)
}

func (t *trial) run(ctx context.Context, objects []runtime.Object) (GroupsAnswer, error) {
	answer := GroupsAnswer{Units: []UnitAnswer{}, Gated: map[string]map[string][]string{}, Ready: []string{}}
	pending := map[string]*v1.Pod{}
	for _, obj := range objects {
		if pod, ok := obj.(*v1.Pod); ok && pod.Spec.NodeName == "" && t.Profiles[pod.Spec.SchedulerName] != nil {
			pending[key(pod)] = pod
		}
	}
	for name, pod := range pending {
		if gates := t.gates(ctx, pod); len(gates) > 0 {
			answer.Gated[name] = gates
		}
	}
	for i, unit := range t.Units {
		t.placements.wanted = ""
		if i < len(t.Placements) {
			t.placements.wanted = t.Placements[i]
		}
		one, err := t.try(ctx, unit, pending)
		if err != nil {
			return answer, err
		}
		answer.Units = append(answer.Units, one)
	}
	for _, pod := range t.SchedulingQueue.PodsInActiveQ() {
		if !t.tried[pod.UID] {
			answer.Ready = append(answer.Ready, key(pod))
		}
	}
	slices.Sort(answer.Ready)
	return answer, nil
}

// gates returns the PreEnqueue plugins that reject a pod, with their reasons.
func (s *realScheduler) gates(ctx context.Context, pod *v1.Pod) map[string][]string {
	gates := map[string][]string{}
	for _, plugin := range s.Profiles[pod.Spec.SchedulerName].PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			gates[plugin.Name()] = status.Reasons()
		}
	}
	return gates
}

// try has the scheduler pop the unit's first pod, and waits until all of its bindings have ended.
func (t *trial) try(ctx context.Context, unit []string, pending map[string]*v1.Pod) (UnitAnswer, error) {
	answer := UnitAnswer{Pods: []MemberAnswer{}}
	t.order = map[string]int{}
	for i, name := range unit {
		t.order[name] = i
	}
	t.popped, t.sequence, t.conditions = nil, nil, nil
	t.victims, t.texts = nil, nil
	t.members, t.ended = map[types.UID]*MemberAnswer{}, map[types.UID]bool{}
	t.next = pending[unit[0]]
	if t.next == nil {
		return answer, fmt.Errorf("no pod %s waits", unit[0])
	}
	t.ScheduleOne(ctx)
	if err := t.settle(); err != nil {
		return answer, err
	}
	for _, uid := range t.sequence {
		t.tried[uid] = true
		answer.Pods = append(answer.Pods, *t.members[uid])
	}
	if len(t.conditions) > 0 {
		answer.Condition = &t.conditions[len(t.conditions)-1]
	}
	slices.Sort(t.victims)
	slices.Sort(t.texts)
	answer.Victims, answer.VictimTexts = t.victims, slices.Compact(t.texts)
	return answer, t.problem
}

func (t *trial) settle() error {
	for deadline := time.Now().Add(syncTimeout); time.Now().Before(deadline); time.Sleep(50 * time.Microsecond) {
		t.mutex.Lock()
		left := slices.ContainsFunc(t.popped, func(info *framework.QueuedPodInfo) bool {
			return info.Pod.DeletionTimestamp == nil && !t.ended[info.Pod.UID]
		})
		t.mutex.Unlock()
		if !left {
			return nil
		}
	}
	return errors.New("an attempt did not end")
}

// schedulePod asks the scheduler, and takes the first of the nodes that are as good as its choice.
func (t *trial) schedulePod(ctx context.Context, fw framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	beside, start := state.Clone(), t.nextStart()
	result, err := t.decide(ctx, fw, state, info)
	member := t.member(info.Pod)
	if err != nil {
		return result, err
	}
	best, problem := t.asGoodAs(ctx, start, result.SuggestedHost, fw, beside, info.Pod)
	if problem != nil {
		t.problem = problem
		return result, err
	}
	member.Best = best
	result.SuggestedHost = best[0]
	return result, nil
}

// asGoodAs returns the names of all nodes that are as good for a pod as the one that was chosen, where
// the search began at an index. Nodes that came back whole from an extender are scored differently by
// it (see passExtenders).
func (s *realScheduler) asGoodAs(ctx context.Context, start int64, chosen string, fw framework.Framework, state fwk.CycleState, pod *v1.Pod) ([]string, error) {
	best, err := s.best(ctx, start, fw, state, pod)
	if err == nil && !slices.Contains(best, chosen) && !s.comeBackWhole(pod) {
		err = fmt.Errorf("oracle: SchedulePod chose %s, the best are %v", chosen, best)
	}
	return best, err
}

// best returns the names of all nodes that are as good for a pod as any.
func (s *realScheduler) best(ctx context.Context, start int64, fw framework.Framework, state fwk.CycleState, pod *v1.Pod) ([]string, error) {
	snapshot, ok := fw.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("unexpected snapshot %T", fw.SnapshotSharedLister())
	}
	nodes, err := snapshot.ListNodesInPlacement()
	if err != nil {
		return nil, err
	}
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	wanted, status, with := fw.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	diagnosis.UnschedulablePlugins = with
	// The nominated node is tried first, and if it fits, no filter fails on others.
	nominated := slices.DeleteFunc(slices.Clone(nodes), func(n fwk.NodeInfo) bool { return n.Node().Name != pod.Status.NominatedNodeName })
	fitting, err := filterNodes(ctx, fw, state, pod, nominated, nil, &diagnosis)
	if err == nil {
		fitting, err = s.passExtenders(pod, fitting, &diagnosis)
	}
	if err == nil && len(fitting) > 0 {
		return []string{pod.Status.NominatedNodeName}, nil
	}
	feasible, err := filterNodes(ctx, fw, state, pod, nodes, wanted, &diagnosis)
	if err != nil {
		return nil, err
	}
	found := s.sampled(fw, start, nodes, feasible)
	if feasible, err = s.passExtenders(pod, feasible, &diagnosis); err != nil {
		return nil, err
	}
	feasible = slices.DeleteFunc(slices.Clone(feasible), func(n fwk.NodeInfo) bool { return !contains(found, n.Node().Name) })
	if len(feasible) == 1 {
		return []string{feasible[0].Node().Name}, nil
	}
	scored, err := s.scoreNodes(ctx, fw, state, pod, feasible)
	if err != nil {
		return nil, err
	}
	most, names := int64(0), []string{}
	for _, node := range scored {
		if *node.Total > most || len(names) == 0 {
			most, names = *node.Total, nil
		}
		if *node.Total == most {
			names = append(names, node.Node)
		}
	}
	slices.Sort(names)
	return names, nil
}

// fail stands for the scheduler's own handler: it writes the end down, and puts the pod where others
// find its nomination. What PostFilter adds to the text of a member is left out: Stowage does not ask
// it for one member at a time.
func (t *trial) fail(ctx context.Context, _ framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, _ time.Time) {
	member := t.member(info.Pod)
	member.Reason, member.Message = v1.PodReasonSchedulerError, status.Message()
	if status.IsRejected() {
		member.Reason = v1.PodReasonUnschedulable
	}
	if fit, ok := status.AsError().(*framework.FitError); ok && info.Pod.Spec.SchedulingGroup != nil {
		plain := *fit
		plain.Diagnosis.PostFilterMsg = ""
		member.Message = plain.Error()
	}
	logger := klog.FromContext(ctx)
	if err := t.SchedulingQueue.AddUnschedulableIfNotPresent(logger, info, t.SchedulingQueue.SchedulingCycle()); err != nil {
		t.problem = err
	}
	t.SchedulingQueue.AddNominatedPod(logger, info.PodInfo, nominating)
	t.end(info.Pod.UID)
}

func (t *trial) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	creation, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding, ok := creation.GetObject().(*v1.Binding)
	if !ok {
		return false, nil, nil
	}
	t.mutex.Lock()
	t.members[binding.UID].Host = binding.Target.Name
	t.mutex.Unlock()
	t.end(binding.UID)
	return true, binding, nil
}

func (t *trial) patchGroup(action clienttesting.Action) (bool, runtime.Object, error) {
	conditions, err := patchedConditions(action)
	t.conditions = append(t.conditions, conditions...)
	return err != nil, nil, err
}

// patchedConditions gives the conditions that a patch writes; none for other actions.
func patchedConditions(action clienttesting.Action) ([]Condition, error) {
	patch, ok := action.(clienttesting.PatchAction)
	if !ok {
		return nil, nil
	}
	var changed struct {
		Status struct {
			Conditions []Condition `json:"conditions"`
		} `json:"status"`
	}
	err := json.Unmarshal(patch.GetPatch(), &changed)
	return changed.Status.Conditions, err
}

// evict writes a victim down, and leaves it where it is: the next unit finds the same cluster.
func (t *trial) evict(action clienttesting.Action) (bool, runtime.Object, error) {
	deletion, ok := action.(clienttesting.DeleteAction)
	if !ok {
		return false, nil, nil
	}
	t.mutex.Lock()
	t.victims = append(t.victims, deletion.GetNamespace()+"/"+deletion.GetName())
	t.mutex.Unlock()
	return true, nil, nil
}

// patchVictim writes down what the condition of a victim says.
func (t *trial) patchVictim(action clienttesting.Action) (bool, runtime.Object, error) {
	conditions, err := patchedConditions(action)
	if err != nil {
		return true, nil, err
	}
	t.mutex.Lock()
	for _, condition := range conditions {
		if condition.Type == string(v1.DisruptionTarget) {
			t.texts = append(t.texts, condition.Message)
		}
	}
	t.mutex.Unlock()
	return true, &v1.Pod{}, nil
}

// member returns what is known of a pod of the present attempt.
func (t *trial) member(pod *v1.Pod) *MemberAnswer {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.members[pod.UID] == nil {
		t.members[pod.UID] = &MemberAnswer{Pod: key(pod), Best: []string{}}
		t.sequence = append(t.sequence, pod.UID)
	}
	return t.members[pod.UID]
}

func (t *trial) end(uid types.UID) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.ended[uid] = true
}

func key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
