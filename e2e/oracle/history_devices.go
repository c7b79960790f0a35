package main

import (
	"context"
	"reflect"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// What DynamicResources asks every five seconds in PreBind has no exported name.

//go:linkname deviceState k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources.getStateData
func deviceState(state fwk.CycleState) (unsafe.Pointer, error)

//go:linkname isPodReadyForBinding k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources.(*DynamicResources).isPodReadyForBinding
func isPodReadyForBinding(plugin *dynamicresources.DynamicResources, state unsafe.Pointer) (bool, error)

//go:linkname hasBindingConditions k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources.hasBindingConditions
func hasBindingConditions(state unsafe.Pointer) bool

// watchDevices has PreBind wait for steps where it would wait for five seconds.
func (h *history) watchDevices() {
	for _, fw := range h.Profiles {
		field := reflect.ValueOf(fw).Elem().FieldByName("preBindPlugins")
		plugins := *(*[]fwk.PreBindPlugin)(unsafe.Pointer(field.UnsafeAddr()))
		for i, plugin := range plugins {
			if devices, ok := plugin.(*dynamicresources.DynamicResources); ok && plugin.Name() == names.DynamicResources {
				manager := managerOf(devices)
				*manager = &steppedManager{*manager, &steppedTracker{ResourceClaimTracker: (*manager).ResourceClaims(), history: h}}
				plugins[i] = &steppedDevices{devices, h}
			}
		}
	}
}

// steppedDevices is the scheduler's own plugin, but for the times at which it looks whether devices are
// ready.
type steppedDevices struct {
	*dynamicresources.DynamicResources
	history *history
}

// PreBindPreFlight notes whether PreBind will wait for devices.
func (p *steppedDevices) PreBindPreFlight(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result, status := p.DynamicResources.PreBindPreFlight(ctx, state, pod, node)
	if status.IsSuccess() {
		waits := p.waits(state)
		p.history.mutex.Lock()
		p.history.claims.conditioned[pod.UID] = p.history.claims.conditioned[pod.UID] || waits
		p.history.mutex.Unlock()
	}
	return result, status
}

func (p *steppedDevices) waits(state fwk.CycleState) bool {
	found, err := deviceState(state)
	return err == nil && hasBindingConditions(found)
}

func (p *steppedDevices) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	found, err := deviceState(state)
	if err != nil {
		return p.DynamicResources.PreBind(ctx, state, pod, node)
	}
	p.history.mutex.Lock()
	waits := p.history.claims.conditioned[pod.UID]
	p.history.mutex.Unlock()
	if waits {
		p.history.awaitTurn(pod.UID)
	}
	plugin := *p.DynamicResources
	manager := managerOf(&plugin)
	tracker := &steppedTracker{ResourceClaimTracker: (*manager).ResourceClaims()}
	tracker.await = func() {
		p.history.awaitDevices(ctx, pod.UID, func() (bool, error) {
			return isPodReadyForBinding(p.DynamicResources, found)
		})
	}
	*manager = &steppedManager{*manager, tracker}
	return plugin.PreBind(ctx, state, pod, node)
}

func managerOf(plugin *dynamicresources.DynamicResources) *fwk.SharedDRAManager {
	field := reflect.ValueOf(plugin).Elem().FieldByName("draManager")
	return (*fwk.SharedDRAManager)(unsafe.Pointer(field.UnsafeAddr()))
}

// awaitDevices returns once devices are ready, or never will be.
func (h *history) awaitDevices(ctx context.Context, uid types.UID, isOver func() (bool, error)) {
	if over, err := isOver(); over || err != nil {
		return
	}
	wait := &volumeWait{isOver: isOver, end: make(chan error, 1)}
	h.mutex.Lock()
	h.volumes.waiting[uid], h.isOver = wait, true
	h.mutex.Unlock()
	select {
	case <-wait.end:
	case <-ctx.Done():
	}
}

type steppedManager struct {
	fwk.SharedDRAManager
	tracker *steppedTracker
}

func (m *steppedManager) ResourceClaims() fwk.ResourceClaimTracker { return m.tracker }

// steppedTracker waits when it is first asked for a claim, which PreBind does to look whether its
// devices are ready; or it notes for which pods PreBind will do so.
type steppedTracker struct {
	fwk.ResourceClaimTracker
	await   func()
	history *history
}

// SignalClaimPendingAllocation is what Reserve calls for each claim that it allocates.
func (t *steppedTracker) SignalClaimPendingAllocation(uid types.UID, claim *resourceapi.ResourceClaim) error {
	if h := t.history; h != nil {
		h.mutex.Lock()
		for _, result := range claim.Status.Allocation.Devices.Results {
			h.claims.conditioned[h.triedUID] = h.claims.conditioned[h.triedUID] || len(result.BindingConditions) > 0
		}
		h.mutex.Unlock()
	}
	return t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, claim)
}

func (t *steppedTracker) Get(namespace, name string) (*resourceapi.ResourceClaim, error) {
	if t.await != nil {
		t.await()
		t.await = nil
	}
	return t.ResourceClaimTracker.Get(namespace, name)
}

// consumedCapacity is what is in use of shared devices.
func (h *history) consumedCapacity() map[string]map[string]float64 {
	found := map[string]map[string]float64{}
	for _, fw := range h.Profiles {
		state, err := fw.SharedDRAManager().ResourceClaims().GatherAllocatedState()
		if err != nil {
			return map[string]map[string]float64{err.Error(): nil}
		}
		for device, amounts := range state.AggregatedCapacity {
			for name, amount := range amounts {
				if amount.IsZero() {
					continue
				}
				if found[device.String()] == nil {
					found[device.String()] = map[string]float64{}
				}
				found[device.String()][string(name)] = amount.AsApproximateFloat64()
			}
		}
		return found
	}
	return found
}

// requestMappings are those in the status of a pod, given by its key.
func (h *history) requestMappings(name string) []v1.ContainerExtendedResourceRequest {
	obj, exists, err := h.informers["Pod"].GetIndexer().GetByKey(name)
	if err != nil || !exists || obj.(*v1.Pod).Status.ExtendedResourceClaimStatus == nil {
		return nil
	}
	return obj.(*v1.Pod).Status.ExtendedResourceClaimStatus.RequestMappings
}
