package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceclient "k8s.io/client-go/kubernetes/typed/resource/v1"
)

// claimWrite is what the scheduler has written to the status of a claim.
type claimWrite struct {
	// Devices are those of the allocation, and null where there is none.
	Devices []DeviceAnswer `json:"devices"`
	// ReservedFor are the UIDs of the pods that may use the claim.
	ReservedFor []string `json:"reservedFor"`
	// Config and NodeSelector are those of the allocation.
	Config       []resourceapi.DeviceAllocationConfiguration `json:"config,omitempty"`
	NodeSelector *v1.NodeSelector                            `json:"nodeSelector,omitempty"`
}

// claims are those that the API server holds. The history's mutex guards all of it.
type claims struct {
	held map[string]*resourceapi.ResourceClaim
	// answers has, by claim, the objects that Stowage's writes of this step have led to; null is a
	// write that is refused.
	answers map[string][]json.RawMessage
	// written are the writes of this step.
	written map[string][]any
	// may has the pods whose claims are written now, and asking those that wait for it.
	may    map[types.UID]bool
	asking map[types.UID]chan struct{}
	// conditioned has the pods whose PreBind waits for devices.
	conditioned map[types.UID]bool
}

// claimMade is what the scheduler asks for in a claim for extended resources, and claimMapped what it
// tells the containers of its pod.
type claimMade struct {
	Requests []string `json:"requests"`
}

type claimMapped struct {
	Claim  string   `json:"claim"`
	Mapped []string `json:"mapped"`
}

type claimDeleted struct {
	Deleted bool `json:"deleted"`
}

func newClaims() *claims {
	return &claims{
		held: map[string]*resourceapi.ResourceClaim{},
		may:  map[types.UID]bool{}, asking: map[types.UID]chan struct{}{},
		conditioned: map[types.UID]bool{},
	}
}

// hold notes a claim that the watch shows; the mutex is held.
func (c *claims) hold(claim *resourceapi.ResourceClaim, isGone bool) {
	name := claim.Namespace + "/" + claim.Name
	if isGone {
		delete(c.held, name)
	} else {
		c.held[name] = claim
	}
}

// get returns a copy of a claim, if it still has this version or none is given; the mutex is held.
func (c *claims) get(name, version string) (*resourceapi.ResourceClaim, error) {
	held := c.held[name]
	if held == nil {
		return nil, apierrors.NewNotFound(claimResource, name)
	}
	if version != "" && version != held.ResourceVersion {
		return nil, apierrors.NewConflict(claimResource, name, errors.New("it has changed"))
	}
	return held.DeepCopy(), nil
}

// writeClaims lets PreBind of a pod write its claims or volumes, and returns once it waits for the
// binding or for its volumes, or has failed.
func (h *history) writeClaims(pod string) error {
	h.mutex.Lock()
	uid := h.uids[pod]
	waiting := h.claims.asking[uid]
	delete(h.claims.asking, uid)
	h.claims.may[uid] = true
	h.mutex.Unlock()
	if waiting == nil {
		return fmt.Errorf("no claim of %s waits to be written", pod)
	}
	close(waiting)
	return h.await(func() bool {
		return h.bindings[uid] != nil || h.failed[uid] || h.volumes.waiting[uid] != nil
	})
}

// awaitTurn blocks the first write of PreBind until the step that lets it write.
func (h *history) awaitTurn(uid types.UID) {
	h.mutex.Lock()
	if h.claims.may[uid] {
		h.mutex.Unlock()
		return
	}
	turn := make(chan struct{})
	h.claims.asking[uid] = turn
	h.isOver = true
	h.mutex.Unlock()
	<-turn
}

// endClaims lets the writes go on that still wait at the end of a history.
func (h *history) endClaims() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	// What happens now is no part of the last step.
	h.tried, h.claims.answers = nil, nil
	for uid, turn := range h.claims.asking {
		delete(h.claims.asking, uid)
		close(turn)
	}
}

// allocatedDevices are the devices that are in use for the scheduler, but for shared ones.
func (h *history) allocatedDevices() []string {
	for _, fw := range h.Profiles {
		found, err := fw.SharedDRAManager().ResourceClaims().GatherAllocatedState()
		if err != nil {
			return []string{err.Error()}
		}
		var names []string
		for device := range found.AllocatedDevices {
			names = append(names, device.String())
		}
		slices.Sort(names)
		return names
	}
	return nil
}

func (c *answeringClient) ResourceV1() resourceclient.ResourceV1Interface {
	return &answeringResources{c.Clientset.ResourceV1(), c.history}
}

type answeringResources struct {
	resourceclient.ResourceV1Interface
	history *history
}

func (r *answeringResources) ResourceClaims(namespace string) resourceclient.ResourceClaimInterface {
	return &answeringClaims{r.ResourceV1Interface.ResourceClaims(namespace), namespace, r.history}
}

type answeringClaims struct {
	resourceclient.ResourceClaimInterface
	namespace string
	history   *history
}

var claimResource = resourceapi.Resource("resourceclaims")

// Update only adds the finalizer. The version stays: the watch will show what Stowage has written.
func (c *answeringClaims) Update(_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	c.history.mutex.Lock()
	defer c.history.mutex.Unlock()
	held, err := c.history.claims.get(c.namespace+"/"+claim.Name, claim.ResourceVersion)
	if err != nil {
		return nil, err
	}
	held.Finalizers = claim.Finalizers
	return held, nil
}

// Create makes a claim for extended resources, as Stowage's was made; the watch shows it at once.
func (c *answeringClaims) Create(_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.CreateOptions) (*resourceapi.ResourceClaim, error) {
	c.history.awaitTurn(claim.OwnerReferences[0].UID)
	note := claimMade{}
	for _, request := range claim.Spec.Devices.Requests {
		note.Requests = append(note.Requests, fmt.Sprintf("%s %s %d", request.Name, request.Exactly.DeviceClassName, request.Exactly.Count))
	}
	made := &resourceapi.ResourceClaim{}
	c.history.mutex.Lock()
	err := c.history.answered(c.namespace+"/"+claim.GenerateName, note, made)
	if err == nil {
		c.history.claims.hold(made, false)
	}
	c.history.mutex.Unlock()
	if err != nil {
		return nil, err
	}
	return made.DeepCopy(), c.history.informers["ResourceClaim"].deliver(made, false)
}

// Delete is followed by a step that shows it.
func (c *answeringClaims) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	c.history.mutex.Lock()
	defer c.history.mutex.Unlock()
	if held := c.history.claims.held[c.namespace+"/"+name]; held != nil && !c.history.needsNode(held.OwnerReferences[0].UID) {
		// Stowage leaves such claims: see "Decided otherwise" in docs/parity.md.
		return errors.New("the pod needs no node")
	}
	c.history.noteWrite(c.namespace+"/"+name, claimDeleted{true})
	return nil
}

func (c *answeringClaims) Get(_ context.Context, name string, _ metav1.GetOptions) (*resourceapi.ResourceClaim, error) {
	c.history.mutex.Lock()
	defer c.history.mutex.Unlock()
	return c.history.claims.get(c.namespace+"/"+name, "")
}

func (c *answeringClaims) UpdateStatus(_ context.Context, claim *resourceapi.ResourceClaim, _ metav1.UpdateOptions) (*resourceapi.ResourceClaim, error) {
	if users := claim.Status.ReservedFor; len(users) > 0 {
		c.history.awaitTurn(users[len(users)-1].UID)
	}
	return c.history.writtenClaim(c.namespace+"/"+claim.Name, claim.ResourceVersion, func(*resourceapi.ResourceClaim) resourceapi.ResourceClaimStatus {
		return claim.Status
	})
}

func (c *answeringClaims) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*resourceapi.ResourceClaim, error) {
	var patch struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Status struct {
			ReservedFor []struct {
				UID types.UID `json:"uid"`
			} `json:"reservedFor"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	user := patch.Status.ReservedFor[0].UID
	if !c.history.needsNode(user) {
		// Stowage leaves such reservations, and the last one: see "Decided otherwise" in docs/parity.md.
		return nil, errors.New("the pod needs no node")
	}
	held, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil || !isReservedFor(held, user) {
		return held, err
	}
	if len(held.Status.ReservedFor) == 1 {
		return nil, errors.New("the last reservation stays")
	}
	return c.history.writtenClaim(c.namespace+"/"+name, "", func(held *resourceapi.ResourceClaim) resourceapi.ResourceClaimStatus {
		status := *held.Status.DeepCopy()
		status.ReservedFor = slices.DeleteFunc(status.ReservedFor, func(each resourceapi.ResourceClaimConsumerReference) bool {
			return each.UID == user
		})
		return status
	})
}

func isReservedFor(claim *resourceapi.ResourceClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(user resourceapi.ResourceClaimConsumerReference) bool {
		return user.UID == uid
	})
}

// needsNode tells whether a pod is there, without a node.
func (h *history) needsNode(uid types.UID) bool {
	for _, obj := range h.informers["Pod"].GetIndexer().List() {
		if pod, ok := obj.(*v1.Pod); ok && pod.UID == uid {
			return pod.DeletionTimestamp == nil && pod.Spec.NodeName == ""
		}
	}
	return false
}

// writtenClaim has the API server answer a write as it has answered Stowage's.
func (h *history) writtenClaim(name, version string, statusOf func(*resourceapi.ResourceClaim) resourceapi.ResourceClaimStatus) (*resourceapi.ResourceClaim, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	held, err := h.claims.get(name, version)
	if err != nil {
		return nil, err
	}
	status := statusOf(held)
	note := claimWrite{ReservedFor: []string{}}
	if status.Allocation != nil {
		note.Devices = []DeviceAnswer{}
		note.Config, note.NodeSelector = status.Allocation.Devices.Config, status.Allocation.NodeSelector
		for _, result := range status.Allocation.Devices.Results {
			device := deviceAnswer(result)
			for name, amount := range result.ConsumedCapacity {
				device.ConsumedCapacity[string(name)] = amount.AsDec().String()
			}
			note.Devices = append(note.Devices, device)
		}
	}
	for _, user := range status.ReservedFor {
		note.ReservedFor = append(note.ReservedFor, string(user.UID))
	}
	written := &resourceapi.ResourceClaim{}
	if err := h.answered(name, note, written); err != nil {
		return nil, err
	}
	h.claims.held[name] = written
	return written.DeepCopy(), nil
}

// isAssumed tells whether a pod, given by its key, has a node in the cache that the watch has not shown.
func (h *history) isAssumed(name string) bool {
	obj, exists, err := h.informers["Pod"].GetIndexer().GetByKey(name)
	if err != nil || !exists {
		return false
	}
	assumed, err := h.Cache.IsAssumedPod(obj.(*v1.Pod))
	return err == nil && assumed
}

// answered notes a write, and has the API server answer it as it has answered Stowage's; the mutex is held.
func (h *history) answered(name string, note, object any) error {
	h.noteWrite(name, note)
	left := h.claims.answers[name]
	if len(left) == 0 {
		return errors.New("Stowage has not written it")
	}
	h.claims.answers[name] = left[1:]
	if string(left[0]) == "null" {
		return errRefused
	}
	return json.Unmarshal(left[0], object)
}

// noteWrite notes a write of this step; the mutex is held.
func (h *history) noteWrite(name string, note any) {
	if h.claims.written != nil {
		h.claims.written[name] = append(h.claims.written[name], note)
	}
}
