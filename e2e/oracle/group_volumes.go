package main

import (
	"context"
	"reflect"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
)

// idleBinder is the scheduler's own, but writes nothing: the volumes of a pod stay taken in memory. For
// members of a group the scheduler forgets that before they are written: see docs/parity.md.
type idleBinder struct {
	volumebinding.SchedulerVolumeBinder
}

func newIdleBinder(binder volumebinding.SchedulerVolumeBinder) volumebinding.SchedulerVolumeBinder {
	return &idleBinder{binder}
}

func (b *idleBinder) BindPodVolumes(_ context.Context, _ *v1.Pod, found *volumebinding.PodVolumes) error {
	field := reflect.ValueOf(b.SchedulerVolumeBinder).Elem().FieldByName("pvCache")
	cache := *(*volumebinding.PVAssumeCache)(unsafe.Pointer(field.UnsafeAddr()))
	for _, binding := range found.StaticBindings {
		field := reflect.ValueOf(binding).Elem().FieldByName("pv")
		if err := cache.Assume(*(**v1.PersistentVolume)(unsafe.Pointer(field.UnsafeAddr()))); err != nil {
			return err
		}
	}
	return nil
}
