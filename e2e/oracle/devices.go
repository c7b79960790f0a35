package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// extendedResources names the claim for extended resources in an answer. It has no name in the pod,
// and kube-scheduler calls it so until it is written.
const extendedResources = "<extended-resources>"

// DeviceAnswer is one device that a claim would get on a node.
type DeviceAnswer struct {
	Request          string            `json:"request"`
	Driver           string            `json:"driver"`
	Pool             string            `json:"pool"`
	Device           string            `json:"device"`
	AdminAccess      bool              `json:"adminAccess,omitempty"`
	ConsumedCapacity map[string]string `json:"consumedCapacity,omitempty"`
}

// reserving is a handle whose record of claims only notes what Reserve takes.
type reserving struct {
	fwk.Handle
	manager *notingManager
}

func (h *reserving) SharedDRAManager() fwk.SharedDRAManager { return h.manager }

type notingManager struct {
	fwk.SharedDRAManager
	tracker *notingTracker
}

func (m *notingManager) ResourceClaims() fwk.ResourceClaimTracker { return m.tracker }

type notingTracker struct {
	fwk.ResourceClaimTracker
	taken []*resourceapi.ResourceClaim
}

// SignalClaimPendingAllocation is what Reserve calls for each claim that it allocates.
func (t *notingTracker) SignalClaimPendingAllocation(_ types.UID, claim *resourceapi.ResourceClaim) error {
	t.taken = append(t.taken, claim)
	return nil
}

// addDevices asks Reserve which devices the pod's claims would get on each feasible node. The plugin
// is one of the oracle's own over the cycle state that the profile's plugin has filled.
func addDevices(ctx context.Context, fw framework.Framework, state fwk.CycleState, pod *v1.Pod, answers []NodeAnswer) error {
	if _, err := state.Read(names.DynamicResources); err != nil {
		return nil // the profile does not have the plugin
	}
	tracker := &notingTracker{ResourceClaimTracker: fw.SharedDRAManager().ResourceClaims()}
	handle := &reserving{Handle: fw, manager: &notingManager{SharedDRAManager: fw.SharedDRAManager(), tracker: tracker}}
	plugin, err := dynamicresources.New(ctx, &config.DynamicResourcesArgs{}, handle,
		plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return err
	}
	for i := range answers {
		tracker.taken = nil
		status := plugin.(fwk.ReservePlugin).Reserve(ctx, state, pod, answers[i].Node)
		if !status.IsSuccess() {
			return status.AsError()
		}
		answers[i].Devices = devicesOf(pod, tracker.taken)
	}
	return nil
}

func devicesOf(pod *v1.Pod, taken []*resourceapi.ResourceClaim) map[string][]DeviceAnswer {
	if len(taken) == 0 {
		return nil
	}
	// A pod may call one claim by several names, and then it is allocated as often.
	called := map[string][]string{}
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			called[*name] = append(called[*name], pod.Spec.ResourceClaims[i].Name)
		}
	}
	devices := map[string][]DeviceAnswer{}
	for _, claim := range taken {
		results := []DeviceAnswer{}
		for _, result := range claim.Status.Allocation.Devices.Results {
			results = append(results, deviceAnswer(result))
		}
		if names := called[claim.Name]; len(names) > 0 {
			devices[names[0]] = results
			called[claim.Name] = names[1:]
		} else if len(results) > 0 {
			// The pod has no name for the claim of its extended resources, in memory or made before.
			devices[extendedResources] = results
		}
	}
	return devices
}

func deviceAnswer(result resourceapi.DeviceRequestAllocationResult) DeviceAnswer {
	answer := DeviceAnswer{
		Request:     result.Request,
		Driver:      result.Driver,
		Pool:        result.Pool,
		Device:      result.Device,
		AdminAccess: result.AdminAccess != nil && *result.AdminAccess,
	}
	for name, quantity := range result.ConsumedCapacity {
		if answer.ConsumedCapacity == nil {
			answer.ConsumedCapacity = map[string]string{}
		}
		answer.ConsumedCapacity[string(name)] = quantity.String()
	}
	return answer
}
