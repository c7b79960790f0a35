package main

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// hintQuestion asks what a change of a pod or a node means to a waiting pod.
type hintQuestion struct {
	Pod runtime.Object `json:"pod"`
	Old runtime.Object `json:"old"`
	New runtime.Object `json:"new"`
}

// HintAnswer is a question as the API server holds its objects, and what each plugin that
// registered for an event of the change says to it.
type HintAnswer struct {
	hintQuestion
	Invalid []string                     `json:"invalid,omitempty"`
	Hints   map[string]map[string]string `json:"hints"`
}

// HintAnswers is the answer to a line of questions about one cluster.
type HintAnswers struct {
	AdmittedAnswer
	Questions []HintAnswer `json:"questions"`
	Error     string       `json:"error,omitempty"`
}

// hintsLine answers a case that has, besides objects and a configuration, questions
// {"pod", "old", "new"}: old is null for what is new, new for what is deleted.
func hintsLine(line []byte) any {
	result, err := answerHints(line)
	if err != nil {
		return HintAnswers{Error: err.Error()}
	}
	return result
}

func answerHints(line []byte) (*HintAnswers, error) {
	var raw struct {
		Questions []struct{ Pod, Old, New json.RawMessage } `json:"questions"`
	}
	c, err := caseFromJSON(line, &raw)
	if err != nil {
		return nil, err
	}
	result := &HintAnswers{}
	if !result.admit(c) {
		return result, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := c.start(ctx, c.schedulerObjects())
	if err != nil {
		return nil, err
	}
	for i, question := range raw.Questions {
		answer := HintAnswer{}
		for data, into := range map[*json.RawMessage]*runtime.Object{
			&question.Pod: &answer.Pod, &question.Old: &answer.Old, &question.New: &answer.New,
		} {
			if *into, err = admitted(*data, &answer.Invalid); err != nil {
				return nil, fmt.Errorf("questions[%d]: %w", i, err)
			}
		}
		if len(answer.Invalid) == 0 {
			if answer.Hints, err = s.hints(ctx, answer.hintQuestion); err != nil {
				return nil, fmt.Errorf("questions[%d]: %w", i, err)
			}
		}
		result.Questions = append(result.Questions, answer)
	}
	return result, nil
}

// admitted decodes one object as the API server would hold it; null is no object.
func admitted(data []byte, invalid *[]string) (runtime.Object, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	single := &clusterCase{}
	if err := single.add(data); err != nil {
		return nil, err
	}
	*invalid = append(*invalid, single.admit()...)
	return single.objects[0], nil
}

// hints returns, by event and plugin, what the plugins of the pod's profile say. The plugins are
// asked themselves: the registration for changes of taints that the scheduler adds to every plugin
// that wants new nodes is not theirs.
func (s *realScheduler) hints(ctx context.Context, question hintQuestion) (map[string]map[string]string, error) {
	pod, ok := question.Pod.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("pod is %T", question.Pod)
	}
	fw := s.Profiles[pod.Spec.SchedulerName]
	if fw == nil {
		return map[string]map[string]string{}, nil
	}
	happened, old, changed, err := eventsOf(question)
	if err != nil {
		return nil, err
	}
	answers := map[string]map[string]string{}
	for _, event := range happened {
		answers[event.Label()] = map[string]string{}
		for _, plugin := range fw.EnqueueExtensions() {
			registered, err := plugin.EventsToRegister(ctx)
			if err != nil {
				return nil, err
			}
			for _, registration := range registered {
				if !framework.MatchClusterEvents(registration.Event, event) {
					continue
				}
				hint := fwk.Queue
				if registration.QueueingHintFn != nil {
					if hint, err = registration.QueueingHintFn(klog.FromContext(ctx), pod, old, changed); err != nil {
						hint = fwk.Queue
					}
				}
				if answers[event.Label()][plugin.Name()] != fwk.Queue.String() {
					answers[event.Label()][plugin.Name()] = hint.String()
				}
			}
		}
	}
	return answers, nil
}

// eventsOf returns the events the scheduler's handlers make of a change, and the objects they carry.
func eventsOf(question hintQuestion) (happened []fwk.ClusterEvent, old, changed any, err error) {
	only := question.New
	action := fwk.Add
	if only == nil {
		only, action = question.Old, fwk.Delete
	}
	// A nil of a type is not what the handlers pass.
	if question.Old != nil {
		old = question.Old
	}
	if question.New != nil {
		changed = question.New
	}
	isUpdate := question.Old != nil && question.New != nil
	switch object := only.(type) {
	case *v1.Node:
		if isUpdate {
			happened = framework.NodeSchedulingPropertiesChange(object, question.Old.(*v1.Node))
		} else {
			happened = []fwk.ClusterEvent{{Resource: fwk.Node, ActionType: action}}
		}
	case *v1.Pod:
		switch {
		case isUpdate:
			happened = framework.PodSchedulingPropertiesChange(object, question.Old.(*v1.Pod))
		case object.Spec.NodeName != "" && action == fwk.Add:
			happened = []fwk.ClusterEvent{framework.EventAssignedPodAdd}
		case object.Spec.NodeName != "":
			happened = []fwk.ClusterEvent{framework.EventAssignedPodDelete}
		case action == fwk.Add:
			happened = []fwk.ClusterEvent{framework.EventUnscheduledPodAdd}
		default:
			happened = []fwk.ClusterEvent{framework.EventUnscheduledPodDelete}
		}
	default:
		resource, known := resourceOf(object)
		if !known {
			err = fmt.Errorf("no event is made of a %T", object)
		}
		if isUpdate {
			action = fwk.Update
		}
		happened = []fwk.ClusterEvent{{Resource: resource, ActionType: action}}
	}
	return happened, old, changed, err
}

// resourceOf returns what an event about an object of storage or devices is about.
func resourceOf(object runtime.Object) (resource fwk.EventResource, known bool) {
	switch object.(type) {
	case *v1.PersistentVolume:
		return fwk.PersistentVolume, true
	case *v1.PersistentVolumeClaim:
		return fwk.PersistentVolumeClaim, true
	case *storagev1.StorageClass:
		return fwk.StorageClass, true
	case *storagev1.CSINode:
		return fwk.CSINode, true
	case *storagev1.CSIDriver:
		return fwk.CSIDriver, true
	case *storagev1.CSIStorageCapacity:
		return fwk.CSIStorageCapacity, true
	case *storagev1.VolumeAttachment:
		return fwk.VolumeAttachment, true
	case *resourceapi.ResourceClaim:
		return fwk.ResourceClaim, true
	case *resourceapi.ResourceSlice:
		return fwk.ResourceSlice, true
	case *resourceapi.DeviceClass:
		return fwk.DeviceClass, true
	}
	return "", false
}
