package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	resourcevalidation "k8s.io/kubernetes/pkg/apis/resource/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	"k8s.io/kubernetes/pkg/apis/storage"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/podgroup"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
)

// creation is the part of a registry strategy that shapes and judges a new object.
type creation interface {
	PrepareForCreate(ctx context.Context, obj runtime.Object)
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
}

// admit replaces the objects with what the API server would hold had they been created, and
// returns a line for each object it would refuse. Statuses stay as given: they are not the
// creator's to set, but every cluster has them.
func (c *clusterCase) admit() []string {
	var invalid []string
	namespaces := fake.NewSimpleClientset(c.namespaces()...).CoreV1().Namespaces()
	for i, obj := range c.objects {
		held, errs := admitObject(obj, namespaces)
		if len(errs) > 0 {
			accessor, _ := meta.Accessor(obj)
			invalid = append(invalid, fmt.Sprintf("%s %s/%s: %s",
				obj.GetObjectKind().GroupVersionKind().Kind, accessor.GetNamespace(), accessor.GetName(),
				errs.ToAggregate()))
			continue
		}
		c.objects[i] = held
	}
	return invalid
}

// namespaces returns those of the case: their labels allow admin access to devices.
func (c *clusterCase) namespaces() []runtime.Object {
	var found []runtime.Object
	for _, obj := range c.objects {
		if namespace, ok := obj.(*v1.Namespace); ok {
			found = append(found, namespace)
		}
	}
	return found
}

func admitObject(obj runtime.Object, namespaces corev1client.NamespaceInterface) (runtime.Object, field.ErrorList) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(obj.DeepCopyObject(),
		schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return obj, nil // a kind the scheduler does not read
	}
	var errs field.ErrorList
	switch o := internal.(type) {
	case *core.Pod:
		status := o.Status
		errs = create(pod.Strategy, o, o.Namespace)
		o.Status = status
	case *core.Node:
		status := o.Status
		errs = create(node.Strategy, o, "")
		o.Status = status
		errs = append(errs, validation.ValidateNode(o)...)
	case *core.Namespace:
		errs = create(namespace.Strategy, o, "")
		o.Status.Phase = core.NamespaceActive
	case *core.Service:
		errs = validation.ValidateServiceCreate(o)
	case *core.ReplicationController:
		errs = create(replicationcontroller.Strategy, o, o.Namespace)
	case *apps.ReplicaSet:
		errs = create(replicaset.Strategy, o, o.Namespace)
	case *apps.StatefulSet:
		errs = create(statefulset.Strategy, o, o.Namespace)
	case *core.PersistentVolume:
		status := o.Status
		errs = create(persistentvolume.Strategy, o, "")
		o.Status = status
	case *core.PersistentVolumeClaim:
		status := o.Status
		errs = create(persistentvolumeclaim.Strategy, o, o.Namespace)
		o.Status = status
	case *storage.StorageClass:
		errs = create(storageclass.Strategy, o, "")
	case *storage.CSINode:
		errs = create(csinode.Strategy, o, "")
	case *storage.CSIDriver:
		errs = create(csidriver.Strategy, o, "")
	case *storage.CSIStorageCapacity:
		errs = create(csistoragecapacity.Strategy, o, o.Namespace)
	case *storage.VolumeAttachment:
		status := o.Status
		errs = create(volumeattachment.Strategy, o, "")
		o.Status = status
	case *scheduling.PodGroup:
		status := o.Status
		o.SetGroupVersionKind(gvk)
		errs = create(podgroup.NewStrategy(), o, o.Namespace)
		o.Status = status
	case *resource.DeviceClass:
		errs = create(deviceclass.Strategy, o, "")
	case *resource.ResourceSlice:
		errs = create(resourceslice.Strategy, o, "")
	case *resource.ResourceClaimTemplate:
		errs = create(resourceclaimtemplate.NewStrategy(namespaces), o, o.Namespace)
	case *resource.ResourceClaim:
		status := o.Status
		errs = create(resourceclaim.NewStrategy(namespaces, nil), o, o.Namespace)
		created := o.DeepCopy()
		created.ResourceVersion, o.ResourceVersion = "1", "1"
		o.Status = status
		errs = append(errs, resourcevalidation.ValidateResourceClaimStatusUpdate(o, created)...)
		o.ResourceVersion = ""
	default:
		return obj, nil
	}
	if len(errs) > 0 {
		return obj, errs
	}
	held, err := legacyscheme.Scheme.UnsafeConvertToVersion(internal, gvk.GroupVersion())
	if err != nil {
		return obj, field.ErrorList{field.InternalError(nil, err)}
	}
	held.GetObjectKind().SetGroupVersionKind(gvk)
	return held, nil
}

func create(strategy creation, obj runtime.Object, ns string) field.ErrorList {
	ctx := genericapirequest.WithNamespace(context.Background(), ns)
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		// Validation that is declared asks through which version an object comes.
		ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
			IsResourceRequest: true, Verb: "create", APIGroup: gvk.Group, APIVersion: gvk.Version, Namespace: ns,
		})
	}
	strategy.PrepareForCreate(ctx, obj)
	return strategy.Validate(ctx, obj)
}
