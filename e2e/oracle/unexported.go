package main

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1alpha2"
	storageapi "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	policyinformers "k8s.io/client-go/informers/policy/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1alpha2"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/gangscheduling"
)

// What the queue does every second, and every half minute, has no exported name.

//go:linkname flushBackoffQCompleted k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushBackoffQCompleted
func flushBackoffQCompleted(queue *internalqueue.PriorityQueue, logger klog.Logger)

//go:linkname flushUnschedulablePodsLeftover k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushUnschedulablePodsLeftover
func flushUnschedulablePodsLeftover(queue *internalqueue.PriorityQueue, logger klog.Logger)

// forgetTaintsForNewNodes takes back the registration for changes of taints that the scheduler adds
// to every plugin that wants new nodes: Stowage has none, see "Waking pods" in docs/parity.md.
func forgetTaintsForNewNodes(queue *internalqueue.PriorityQueue) {
	for _, byEvent := range hintsOf(queue) {
		delete(byEvent, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint})
	}
}

// forgetPodsWithoutNode takes back the registrations for new pods that have no node, but for that of
// GangScheduling: there are such events only with its feature gate, see "Waking pods" in docs/parity.md.
func forgetPodsWithoutNode(queue *internalqueue.PriorityQueue) {
	assigned, unscheduled := framework.EventAssignedPodAdd.Resource, framework.EventUnscheduledPodAdd.Resource
	for _, byEvent := range hintsOf(queue) {
		for event, hints := range maps.Clone(byEvent) {
			if event.Resource != fwk.Pod || event.ActionType&fwk.Add == 0 {
				continue
			}
			delete(byEvent, event)
			for _, hint := range hints {
				if hint.PluginName == gangscheduling.Name {
					byEvent[event] = append(byEvent[event], hint)
					continue
				}
				for resource, action := range map[fwk.EventResource]fwk.ActionType{
					assigned: event.ActionType, unscheduled: event.ActionType &^ fwk.Add,
				} {
					split := fwk.ClusterEvent{Resource: resource, ActionType: action}
					byEvent[split] = append(byEvent[split], hint)
				}
			}
		}
	}
}

func hintsOf(queue *internalqueue.PriorityQueue) internalqueue.QueueingHintMapPerProfile {
	field := reflect.ValueOf(queue).Elem().FieldByName("queueingHintMap")
	return *(*internalqueue.QueueingHintMapPerProfile)(unsafe.Pointer(field.UnsafeAddr()))
}

// syncInformer is an informer whose handlers run within `deliver`.
type syncInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func (i *syncInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandler(handler)
}

func (i *syncInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period)
}

func (i *syncInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	return i.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
}

func (i *syncInformer) deliver(obj runtime.Object, isGone bool) error {
	store := i.GetIndexer()
	old, exists, err := store.Get(obj)
	if err != nil {
		return err
	}
	switch {
	case isGone && exists:
		err = store.Delete(obj)
		for _, handler := range i.handlers {
			handler.OnDelete(obj)
		}
	case isGone:
		err = errors.New("it is not there")
	case exists:
		err = store.Update(obj)
		for _, handler := range i.handlers {
			handler.OnUpdate(old, obj)
		}
	default:
		err = store.Add(obj)
		for _, handler := range i.handlers {
			handler.OnAdd(obj, false)
		}
	}
	return err
}

// stepKinds are the kinds of the objects that steps are about, each with its informer.
var stepKinds = map[string]func(informers.SharedInformerFactory) *syncInformer{
	"Pod": syncInformerOf(&v1.Pod{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return coreinformers.NewPodInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"Node": syncInformerOf(&v1.Node{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return coreinformers.NewNodeInformer(client, 0, byNamespace())
	}),
	"Namespace": syncInformerOf(&v1.Namespace{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return coreinformers.NewNamespaceInformer(client, 0, byNamespace())
	}),
	"ResourceClaim": syncInformerOf(&resourceapi.ResourceClaim{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return resourceinformers.NewResourceClaimInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"ResourceSlice": syncInformerOf(&resourceapi.ResourceSlice{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return resourceinformers.NewResourceSliceInformer(client, 0, byNamespace())
	}),
	"DeviceClass": syncInformerOf(&resourceapi.DeviceClass{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return resourceinformers.NewDeviceClassInformer(client, 0, byNamespace())
	}),
	"Service": syncInformerOf(&v1.Service{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return coreinformers.NewServiceInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"ReplicationController": syncInformerOf(&v1.ReplicationController{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return coreinformers.NewReplicationControllerInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"ReplicaSet": syncInformerOf(&appsv1.ReplicaSet{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return appsinformers.NewReplicaSetInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"StatefulSet": syncInformerOf(&appsv1.StatefulSet{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return appsinformers.NewStatefulSetInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"PodDisruptionBudget": syncInformerOf(&policyv1.PodDisruptionBudget{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return policyinformers.NewPodDisruptionBudgetInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"PodGroup": syncInformerOf(&schedulingapi.PodGroup{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return schedulinginformers.NewPodGroupInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"PersistentVolume": syncInformerOf(&v1.PersistentVolume{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return coreinformers.NewPersistentVolumeInformer(client, 0, byNamespace())
	}),
	"PersistentVolumeClaim": syncInformerOf(&v1.PersistentVolumeClaim{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return coreinformers.NewPersistentVolumeClaimInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"StorageClass": syncInformerOf(&storageapi.StorageClass{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return storageinformers.NewStorageClassInformer(client, 0, byNamespace())
	}),
	"CSINode": syncInformerOf(&storageapi.CSINode{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return storageinformers.NewCSINodeInformer(client, 0, byNamespace())
	}),
	"CSIDriver": syncInformerOf(&storageapi.CSIDriver{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return storageinformers.NewCSIDriverInformer(client, 0, byNamespace())
	}),
	"CSIStorageCapacity": syncInformerOf(&storageapi.CSIStorageCapacity{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return storageinformers.NewCSIStorageCapacityInformer(client, metav1.NamespaceAll, 0, byNamespace())
	}),
	"VolumeAttachment": syncInformerOf(&storageapi.VolumeAttachment{}, func(client kubernetes.Interface) cache.SharedIndexInformer {
		return storageinformers.NewVolumeAttachmentInformer(client, 0, byNamespace())
	}),
}

// byNamespace returns indexers of one informer, as plugins add theirs.
func byNamespace() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

func syncInformerOf(kind runtime.Object, make func(kubernetes.Interface) cache.SharedIndexInformer) func(informers.SharedInformerFactory) *syncInformer {
	return func(factory informers.SharedInformerFactory) *syncInformer {
		informer := &syncInformer{}
		factory.InformerFor(kind, func(client kubernetes.Interface, _ time.Duration) cache.SharedIndexInformer {
			informer.SharedIndexInformer = make(client)
			return informer
		})
		return informer
	}
}

// kindOfStep returns the kind of an object that steps may be about, and nothing for others.
func kindOfStep(obj runtime.Object) string {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil || stepKinds[kinds[0].Kind] == nil {
		return ""
	}
	return kinds[0].Kind
}

// answeringClient is the client of the scheduler, whose bindings and deletions wait for their answer.
type answeringClient struct {
	*fake.Clientset
	history *history
}

func (c *answeringClient) CoreV1() corev1client.CoreV1Interface {
	return &answeringCore{c.Clientset.CoreV1(), c.history}
}

type answeringCore struct {
	corev1client.CoreV1Interface
	history *history
}

func (c *answeringCore) Pods(namespace string) corev1client.PodInterface {
	return &answeringPods{c.CoreV1Interface.Pods(namespace), namespace, c.history}
}

type answeringPods struct {
	corev1client.PodInterface
	namespace string
	history   *history
}

func (p *answeringPods) Bind(_ context.Context, binding *v1.Binding, _ metav1.CreateOptions) error {
	return p.history.binding(binding)
}

func (p *answeringPods) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string) (*v1.Pod, error) {
	if len(subresources) != 1 || subresources[0] != "status" {
		return nil, errors.New("only statuses are patched")
	}
	return &v1.Pod{}, p.history.patched(p.namespace+"/"+name, data)
}

func (p *answeringPods) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	return p.history.deletion(ctx, p.namespace+"/"+name)
}
