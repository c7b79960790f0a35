package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// What VolumeBinding writes in PreBind, and asks once a second afterwards, has no exported name.

//go:linkname bindAPIUpdate k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding.(*volumeBinder).bindAPIUpdate
func bindAPIUpdate(binder unsafe.Pointer, ctx context.Context, pod *v1.Pod, bindings []*volumebinding.BindingInfo, claims []*v1.PersistentVolumeClaim) error

//go:linkname checkBindings k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding.(*volumeBinder).checkBindings
func checkBindings(binder unsafe.Pointer, logger klog.Logger, pod *v1.Pod, bindings []*volumebinding.BindingInfo, claims []*v1.PersistentVolumeClaim) (bool, error)

// volumeWrite is what the scheduler has written to a volume, its claim, or to a claim, its node.
type volumeWrite struct {
	Claim string `json:"claim,omitempty"`
	Node  string `json:"node,omitempty"`
}

// volumes are volumes and claims that the API server holds. The history's mutex guards all of it.
type volumes struct {
	held map[string]metav1.Object
	// waiting has the pods that wait until their volumes are bound.
	waiting map[types.UID]*volumeWait
	// written are the writes of this step.
	written map[string][]volumeWrite
}

type volumeWait struct {
	isOver func() (bool, error)
	end    chan error
}

func newVolumes() *volumes {
	return &volumes{held: map[string]metav1.Object{}, waiting: map[types.UID]*volumeWait{}}
}

// hold notes a volume or claim that the watch shows; the mutex is held.
func (v *volumes) hold(obj any, isGone bool) {
	switch obj.(type) {
	case *v1.PersistentVolume, *v1.PersistentVolumeClaim:
		held := obj.(metav1.Object)
		if isGone {
			delete(v.held, nameOf(held))
		} else {
			v.held[nameOf(held)] = held
		}
	}
}

func nameOf(obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

// replaceBinders has all profiles bind volumes by what is made of their own binders.
func (s *realScheduler) replaceBinders(replace func(volumebinding.SchedulerVolumeBinder) volumebinding.SchedulerVolumeBinder) {
	for _, fw := range s.Profiles {
		field := reflect.ValueOf(fw).Elem().FieldByName("pluginsMap")
		plugins := *(*map[string]fwk.Plugin)(unsafe.Pointer(field.UnsafeAddr()))
		if plugin, ok := plugins[names.VolumeBinding].(*volumebinding.VolumeBinding); ok {
			plugin.Binder = replace(plugin.Binder)
		}
	}
}

// watchVolumes has PreBind wait for steps where it would wait for a second.
func (h *history) watchVolumes() {
	h.replaceBinders(func(binder volumebinding.SchedulerVolumeBinder) volumebinding.SchedulerVolumeBinder {
		return &steppedBinder{binder, h}
	})
}

// steppedBinder is the scheduler's own, but for the time at which it looks whether volumes are bound.
type steppedBinder struct {
	volumebinding.SchedulerVolumeBinder
	history *history
}

func (b *steppedBinder) BindPodVolumes(ctx context.Context, pod *v1.Pod, found *volumebinding.PodVolumes) error {
	binder := reflect.ValueOf(b.SchedulerVolumeBinder).UnsafePointer()
	claims := []*v1.PersistentVolumeClaim{}
	for _, provision := range found.DynamicProvisions {
		claims = append(claims, provision.PVC)
	}
	b.history.awaitTurn(pod.UID)
	if err := bindAPIUpdate(binder, ctx, pod, found.StaticBindings, claims); err != nil {
		return err
	}
	wait := &volumeWait{end: make(chan error, 1)}
	wait.isOver = func() (bool, error) {
		return checkBindings(binder, klog.FromContext(ctx), pod, found.StaticBindings, claims)
	}
	h := b.history
	h.mutex.Lock()
	h.volumes.waiting[pod.UID], h.isOver = wait, true
	h.mutex.Unlock()
	select {
	case err := <-wait.end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkVolumes looks whether the volumes of a pod are bound, and returns once it waits for its binding
// or has failed.
func (h *history) checkVolumes(pod string) error {
	h.mutex.Lock()
	uid := h.uids[pod]
	wait := h.volumes.waiting[uid]
	h.mutex.Unlock()
	if wait == nil {
		return fmt.Errorf("no volume of %s is waited for", pod)
	}
	isOver, err := wait.isOver()
	if err == nil && !isOver {
		return nil
	}
	h.mutex.Lock()
	delete(h.volumes.waiting, uid)
	h.mutex.Unlock()
	wait.end <- err
	return h.await(func() bool { return h.bindings[uid] != nil || h.failed[uid] })
}

// endVolumes ends the waits that are left at the end of a history.
func (h *history) endVolumes() {
	h.mutex.Lock()
	waiting := h.volumes.waiting
	h.volumes.waiting = map[types.UID]*volumeWait{}
	h.mutex.Unlock()
	for _, wait := range waiting {
		wait.end <- errors.New("the history is over")
	}
}

// writtenVolume has the API server answer a write as it has answered Stowage's.
func (h *history) writtenVolume(obj, empty metav1.Object, resource string, note volumeWrite) (metav1.Object, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	name, kind := nameOf(obj), schema.GroupResource{Resource: resource}
	held := h.volumes.held[name]
	if held == nil {
		return nil, apierrors.NewNotFound(kind, name)
	}
	if obj.GetResourceVersion() != held.GetResourceVersion() {
		return nil, apierrors.NewConflict(kind, name, errors.New("it has changed"))
	}
	if note == noteOf(held) && isByController(obj) == isByController(held) {
		// Nothing changes, and Stowage writes nothing.
		return held, nil
	}
	if h.volumes.written != nil {
		h.volumes.written[name] = append(h.volumes.written[name], note)
	}
	left := h.claims.answers[name]
	if len(left) == 0 {
		return nil, errors.New("Stowage has not written it")
	}
	h.claims.answers[name] = left[1:]
	if string(left[0]) == "null" {
		return nil, errRefused
	}
	if err := json.Unmarshal(left[0], empty); err != nil {
		return nil, err
	}
	h.volumes.held[name] = empty
	return empty, nil
}

func noteOf(obj any) volumeWrite {
	switch o := obj.(type) {
	case *v1.PersistentVolume:
		if ref := o.Spec.ClaimRef; ref != nil {
			return volumeWrite{Claim: fmt.Sprintf("%s/%s %s", ref.Namespace, ref.Name, ref.UID)}
		}
	case *v1.PersistentVolumeClaim:
		return volumeWrite{Node: o.Annotations[volume.AnnSelectedNode]}
	}
	return volumeWrite{}
}

func isByController(obj metav1.Object) bool {
	_, found := obj.GetAnnotations()[volume.AnnBoundByController]
	return found
}

func (c *answeringCore) PersistentVolumes() corev1client.PersistentVolumeInterface {
	return &answeringVolumes{c.CoreV1Interface.PersistentVolumes(), c.history}
}

type answeringVolumes struct {
	corev1client.PersistentVolumeInterface
	history *history
}

func (v *answeringVolumes) Update(_ context.Context, pv *v1.PersistentVolume, _ metav1.UpdateOptions) (*v1.PersistentVolume, error) {
	written, err := v.history.writtenVolume(pv, &v1.PersistentVolume{}, "persistentvolumes", noteOf(pv))
	if err != nil {
		return nil, err
	}
	return written.(*v1.PersistentVolume).DeepCopy(), nil
}

func (c *answeringCore) PersistentVolumeClaims(namespace string) corev1client.PersistentVolumeClaimInterface {
	return &answeringVolumeClaims{c.CoreV1Interface.PersistentVolumeClaims(namespace), c.history}
}

type answeringVolumeClaims struct {
	corev1client.PersistentVolumeClaimInterface
	history *history
}

func (c *answeringVolumeClaims) Update(_ context.Context, claim *v1.PersistentVolumeClaim, _ metav1.UpdateOptions) (*v1.PersistentVolumeClaim, error) {
	written, err := c.history.writtenVolume(claim, &v1.PersistentVolumeClaim{}, "persistentvolumeclaims", noteOf(claim))
	if err != nil {
		return nil, err
	}
	return written.(*v1.PersistentVolumeClaim).DeepCopy(), nil
}

// hasOnlyVolumes tells whether PreBind of a pod, given by its key, can have no other work than volumes.
func (h *history) hasOnlyVolumes(name string) bool {
	obj, exists, err := h.informers["Pod"].GetIndexer().GetByKey(name)
	if err != nil || !exists {
		return false
	}
	spec := obj.(*v1.Pod).Spec
	return len(spec.ResourceClaims) == 0 && slices.ContainsFunc(spec.Volumes, func(each v1.Volume) bool {
		return each.PersistentVolumeClaim != nil || each.Ephemeral != nil
	})
}
