package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"
)

// unitsPerSecond is the unit of all times of a history: exact in nanoseconds and in floats.
const unitsPerSecond = 512

// historyBase is the time of a history's beginning: a whole second, as backoff is counted in those.
var historyBase = time.Unix(1_700_000_000, 0)

// historyStep is one thing that happens.
type historyStep struct {
	// At is its time since the beginning.
	At int64 `json:"at"`
	// Do is "set" or "delete" an object, "flush" what time has set free, "try" the next pod, or
	// let the API server answer a binding: "bound", "unbound", or the deletion of a victim:
	// "evicted", "unevicted", or let PreBind "write" the claims of a pod or "check" whether its volumes
	// are bound. With pod groups also "idle": Stowage has nothing to try.
	Do     string          `json:"do"`
	Object json.RawMessage `json:"object"`
	// Pod is the one whose binding or deletion is answered, or whose claims are written. With pod
	// groups it is also the one that is tried.
	Pod string `json:"pod"`
	// Members are those of its group that Stowage has tried with it, in this order.
	Members []string `json:"members"`
	// Placement is where Stowage has placed them; "" where they could be anywhere.
	Placement string `json:"placement"`
	// During has what happens between the decision about a pod and its return to the queue.
	During []historyStep `json:"during"`
	// Until is the time of that return.
	Until int64 `json:"until"`
	// Then has what happens after the attempt, before its end is looked at.
	Then []historyStep `json:"then"`
	// Wrote has the answers of the API server to what is written to claims.
	Wrote map[string][]json.RawMessage `json:"wrote"`
}

// HistoryAnswer tells what each step has led to.
type HistoryAnswer struct {
	Steps []StepAnswer `json:"steps"`
	Error string       `json:"error,omitempty"`
}

// AdmittedHistoryAnswer is an answer with the objects as the API server holds them.
type AdmittedHistoryAnswer struct {
	AdmittedAnswer
	History HistoryAnswer `json:"history"`
}

// Tried is the end of an attempt, or its binding that waits for an answer.
type Tried struct {
	Pod     string   `json:"pod"`
	Host    string   `json:"host,omitempty"`
	Best    []string `json:"best,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Message string   `json:"message,omitempty"`
	// Condition and Nomination were written to the status of the pod.
	Condition  *Condition `json:"condition,omitempty"`
	Nomination *string    `json:"nomination,omitempty"`
	// Victims are the pods on the node that is to be cleared.
	Victims []string `json:"victims,omitempty"`
	// Displaced are the pods that lost their nomination.
	Displaced []string `json:"displaced,omitempty"`
	// Members are the ends of the attempts of a group's members, and Group is its condition.
	Members map[string]*Tried `json:"members,omitempty"`
	Group   *Condition        `json:"group,omitempty"`
}

// historyLine answers a case that has, besides objects as the API server holds them and a
// configuration, steps; without them it says how the API server holds the objects.
func historyLine(line []byte) any {
	result, err := answerHistory(line)
	if err != nil {
		return AdmittedHistoryAnswer{History: HistoryAnswer{Error: err.Error()}}
	}
	return result
}

func answerHistory(line []byte) (*AdmittedHistoryAnswer, error) {
	var raw struct {
		Steps []historyStep `json:"steps"`
	}
	c, err := caseFromJSON(line, &raw)
	if err != nil {
		return nil, err
	}
	result := &AdmittedHistoryAnswer{}
	result.Answer.Pods = []PodAnswer{}
	if raw.Steps == nil {
		result.admit(c)
		return result, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h, err := newHistory(ctx, c)
	if err != nil {
		return nil, err
	}
	for i, step := range raw.Steps {
		answer, err := h.do(ctx, step)
		if answer != nil {
			result.History.Steps = append(result.History.Steps, *answer)
		}
		if err != nil {
			result.History.Error = fmt.Sprintf("step %d: %v", i, err)
			break
		}
	}
	h.refuseEvictions()
	h.endClaims()
	h.endVolumes()
	return result, nil
}

// history has kube-scheduler live through steps. Only these things are not its own: the clock, when
// it pops a pod and looks at its clock, that the first of several best nodes is taken, and when the
// API server answers.
type history struct {
	*realScheduler
	clock     *testingclock.FakeClock
	queue     *internalqueue.PriorityQueue
	informers map[string]*syncInformer
	decide    func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (scheduler.ScheduleResult, error)
	fail      func(context.Context, framework.Framework, *framework.QueuedPodInfo, *fwk.Status, *fwk.NominatingInfo, time.Time)
	nodeNames map[string]bool
	trying    historyStep
	problem   error
	evictions *evictions
	claims    *claims
	volumes   *volumes
	groups    *together

	mutex    sync.Mutex
	tried    *Tried
	triedUID types.UID
	isOver   bool
	bindings map[types.UID]chan error
	uids     map[string]types.UID
	failed   map[types.UID]bool
}

func newHistory(ctx context.Context, c *clusterCase) (*history, error) {
	cfg, err := loadConfig(c.rawConfig)
	if err != nil {
		return nil, err
	}
	h := &history{
		clock:     testingclock.NewFakeClock(historyBase),
		informers: map[string]*syncInformer{},
		nodeNames: map[string]bool{},
		bindings:  map[types.UID]chan error{},
		uids:      map[string]types.UID{},
		failed:    map[types.UID]bool{},
		claims:    newClaims(),
		volumes:   newVolumes(),
	}
	// Those that steps are about come with them.
	client := newClient(c.schedulerObjects())
	factory := informers.NewSharedInformerFactory(client, 0)
	for kind, make := range stepKinds {
		h.informers[kind] = make(factory)
	}
	options := append(h.beginTogether(cfg), scheduler.WithClock(h.clock))
	h.realScheduler, err = newSchedulerOf(ctx, cfg, client, &answeringClient{client, h}, factory, options...)
	if err != nil {
		return nil, err
	}
	queue, ok := h.SchedulingQueue.(*internalqueue.PriorityQueue)
	if !ok {
		return nil, fmt.Errorf("unexpected queue %T", h.SchedulingQueue)
	}
	h.queue, h.decide, h.fail = queue, h.SchedulePod, h.FailureHandler
	forgetTaintsForNewNodes(queue)
	h.NextPod = h.nextPod
	h.SchedulePod = h.schedulePod
	h.FailureHandler = h.handleFailure
	h.watchPreemption()
	h.watchVolumes()
	h.watchDevices()
	h.watchGroups()
	return h, h.sync(ctx)
}

func (h *history) do(ctx context.Context, step historyStep) (*StepAnswer, error) {
	h.mutex.Lock()
	h.tried, h.evictions.begun = nil, map[string]*Condition{}
	h.claims.answers, h.claims.written = step.Wrote, map[string][]any{}
	h.volumes.written = map[string][]volumeWrite{}
	h.mutex.Unlock()
	h.groups.begin(historyStep{})
	if err := h.happen(ctx, step); err != nil {
		return nil, err
	}
	var problem error
	for _, each := range step.Then {
		if problem = h.happen(ctx, each); problem != nil {
			break
		}
	}
	answer := h.state()
	h.groups.addState(ctx, &answer)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	answer.Tried, answer.Evictions = h.tried, maps.Clone(h.evictions.begun)
	h.groups.tell(&answer)
	answer.Written = map[string]any{}
	for name, writes := range h.claims.written {
		answer.Written[name] = writes
	}
	for name, writes := range h.volumes.written {
		answer.Written[name] = writes
	}
	return &answer, errors.Join(problem, h.problem)
}

func (h *history) happen(ctx context.Context, step historyStep) error {
	h.setTime(step.At)
	switch step.Do {
	case "set", "delete":
		return h.deliver(step)
	case "flush":
		logger := klog.FromContext(ctx)
		flushBackoffQCompleted(h.queue, logger)
		flushUnschedulablePodsLeftover(h.queue, logger)
		return nil
	case "try":
		return h.try(ctx, step)
	case "bound":
		return h.answerBinding(step.Pod, nil)
	case "unbound":
		return h.answerBinding(step.Pod, errRefused)
	case "evicted":
		return h.answerEviction(step.Pod, false)
	case "unevicted":
		return h.answerEviction(step.Pod, true)
	case "write":
		return h.writeClaims(step.Pod)
	case "check":
		return h.checkVolumes(step.Pod)
	case "idle":
		return h.groups.tryAll(ctx, step)
	}
	return fmt.Errorf("unknown step %q", step.Do)
}

func (h *history) setTime(at int64) {
	h.clock.SetTime(historyBase.Add(time.Duration(at) * time.Second / unitsPerSecond))
}

// deliver changes what the informer of an object knows, and calls its handlers.
func (h *history) deliver(step historyStep) error {
	single := &clusterCase{}
	if err := single.add(step.Object); err != nil {
		return err
	}
	obj := single.objects[0]
	if node, ok := obj.(*v1.Node); ok {
		h.nodeNames[node.Name] = true
	}
	if pod, ok := obj.(*v1.Pod); ok && pod.Status.NominatedNodeName != "" {
		h.nodeNames[pod.Status.NominatedNodeName] = true
	}
	if pod, ok := obj.(*v1.Pod); ok {
		h.groups.note(pod)
	}
	if claim, ok := obj.(*resourceapi.ResourceClaim); ok {
		h.mutex.Lock()
		h.claims.hold(claim, step.Do == "delete")
		h.mutex.Unlock()
	}
	h.mutex.Lock()
	h.volumes.hold(obj, step.Do == "delete")
	h.mutex.Unlock()
	informer := h.informers[kindOfStep(obj)]
	if informer == nil {
		return fmt.Errorf("no informer of a %T", obj)
	}
	if err := informer.deliver(obj, step.Do == "delete"); err != nil {
		return err
	}
	h.groups.changed(obj)
	return nil
}

func (h *history) try(ctx context.Context, step historyStep) error {
	if h.groups != nil && step.Pod == "" || h.groups == nil && !h.isReady() {
		return nil
	}
	h.trying, h.isOver = step, false
	h.groups.begin(step)
	h.ScheduleOne(ctx)
	if err := h.await(func() bool { return h.isOver && h.groups.haveEnded() }); err != nil {
		return err
	}
	return h.awaitEvictions()
}

func (h *history) nextPod(logger klog.Logger) (*framework.QueuedPodInfo, error) {
	info, err := h.pop(logger)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if info != nil {
		h.tried, h.triedUID = &Tried{Pod: key(info.Pod)}, h.groups.preemptorOf(info.Pod)
		h.failed[info.Pod.UID] = false
		h.uids[key(info.Pod)] = info.Pod.UID
		delete(h.claims.may, info.Pod.UID)
		delete(h.claims.conditioned, info.Pod.UID)
		delete(h.evictions.byPreemptor, h.triedUID)
		// A pod that is being deleted is skipped, and no function of this program hears of it.
		h.isOver = info.Pod.DeletionTimestamp != nil || h.groups != nil && isMember(info.Pod)
	}
	return info, err
}

func (h *history) pop(logger klog.Logger) (*framework.QueuedPodInfo, error) {
	if h.groups != nil {
		return h.groups.pop(logger, h.trying.Pod)
	}
	return h.queue.Pop(logger)
}

// about returns what is told of a pod: of a member of the group that is tried, or of the pod that is.
func (h *history) about(pod string) *Tried {
	if member := h.groups.member(pod); member != nil {
		return member
	}
	if h.tried == nil {
		h.tried = &Tried{Pod: pod}
	}
	return h.tried
}

// schedulePod asks the scheduler, and takes the first of the nodes that are as good as its choice.
func (h *history) schedulePod(ctx context.Context, fw framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
	beside, start := state.Clone(), h.nextStart()
	result, err := h.decide(ctx, fw, state, info)
	for _, step := range h.trying.During {
		if problem := h.happen(ctx, step); problem != nil {
			h.problem = problem
		}
	}
	if h.trying.Until > 0 {
		h.setTime(h.trying.Until)
	}
	if err != nil {
		return result, err
	}
	best, problem := h.asGoodAs(ctx, start, result.SuggestedHost, fw, beside, info.Pod)
	if problem != nil {
		h.problem = problem
		return result, err
	}
	h.about(key(info.Pod)).Best = best
	result.SuggestedHost = best[0]
	return result, nil
}

func (h *history) handleFailure(ctx context.Context, fw framework.Framework, info *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
	h.mutex.Lock()
	tried := h.about(key(info.Pod))
	tried.Reason, tried.Message = v1.PodReasonSchedulerError, status.Message()
	if status.IsRejected() {
		tried.Reason = v1.PodReasonUnschedulable
	}
	h.mutex.Unlock()
	h.fail(ctx, fw, info, status, nominating, start)
	h.mutex.Lock()
	h.failed[info.Pod.UID], h.isOver = true, true
	h.mutex.Unlock()
}

// binding waits for the answer of the API server to a binding.
func (h *history) binding(binding *v1.Binding) error {
	answer := make(chan error)
	h.mutex.Lock()
	h.bindings[binding.UID] = answer
	name := binding.Namespace + "/" + binding.Name
	h.uids[name] = binding.UID
	h.about(name).Host = binding.Target.Name
	h.isOver = true
	h.mutex.Unlock()
	return <-answer
}

func (h *history) answerBinding(pod string, problem error) error {
	h.mutex.Lock()
	uid := h.uids[pod]
	answer := h.bindings[uid]
	delete(h.bindings, uid)
	h.mutex.Unlock()
	if answer == nil {
		return fmt.Errorf("no binding of %s is under way", pod)
	}
	answer <- problem
	if problem == nil {
		return nil
	}
	return h.await(func() bool { return h.failed[uid] })
}

func (h *history) await(isTrue func() bool) error {
	for deadline := time.Now().Add(syncTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Microsecond) {
		h.mutex.Lock()
		over := isTrue()
		h.mutex.Unlock()
		if over {
			return nil
		}
	}
	return errors.New("an attempt did not end")
}

// isReady tells whether a pod can be popped without waiting.
func (h *history) isReady() bool {
	return len(h.next()) > 0
}
