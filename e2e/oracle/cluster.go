package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// syncTimeout bounds the wait for informers that answer from memory.
const syncTimeout = 30 * time.Second

// realScheduler is kube-scheduler as its own main builds it, over objects in memory.
type realScheduler struct {
	*scheduler.Scheduler
	client            *fake.Clientset
	factory           informers.SharedInformerFactory
	completedProfiles []config.KubeSchedulerProfile
	extenders         []config.Extender
}

func newScheduler(ctx context.Context, cfg *config.KubeSchedulerConfiguration, objects []runtime.Object, options ...scheduler.Option) (*realScheduler, error) {
	client := newClient(objects)
	return newSchedulerOf(ctx, cfg, client, client, scheduler.NewInformerFactory(client, 0), options...)
}

// newClient returns a client of an API server that holds objects, and lists them in their order.
func newClient(objects []runtime.Object) *fake.Clientset {
	client := fake.NewSimpleClientset(objects...)
	listSorted(client, objects)
	return client
}

// newSchedulerOf builds a scheduler that writes by another client than the one that holds the objects.
func newSchedulerOf(ctx context.Context, cfg *config.KubeSchedulerConfiguration, client *fake.Clientset, writer kubernetes.Interface, factory informers.SharedInformerFactory, options ...scheduler.Option) (*realScheduler, error) {
	s := &realScheduler{client: client, factory: factory, extenders: cfg.Extenders}
	recorders := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	var err error
	s.Scheduler, err = scheduler.New(ctx, writer, s.factory, nil, profile.RecorderFactory(recorders), append(options,
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithProfiles(cfg.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(cfg.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(cfg.PodInitialBackoffSeconds),
		scheduler.WithExtenders(cfg.Extenders...),
		scheduler.WithParallelism(cfg.Parallelism),
		scheduler.WithBuildFrameworkCapturer(func(p config.KubeSchedulerProfile) {
			s.completedProfiles = append(s.completedProfiles, p)
		}),
	)...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// start builds the scheduler of a case over objects, and returns it once it has seen them all.
func (c *clusterCase) start(ctx context.Context, objects []runtime.Object) (*realScheduler, error) {
	cfg, err := loadConfig(c.rawConfig)
	if err != nil {
		return nil, err
	}
	if c.preempt {
		tryAllNodes(cfg)
	}
	s, err := newScheduler(ctx, cfg, objects)
	if err != nil {
		return nil, err
	}
	return s, s.sync(ctx)
}

// sync starts the informers and returns once every handler has seen every object and the snapshot
// holds them all.
func (s *realScheduler) sync(ctx context.Context) error {
	s.factory.Start(ctx.Done())
	deadline := time.Now().Add(syncTimeout)
	for {
		// The scheduler's own wait looks at once and then every 100 ms: too slow for thousands of
		// cases, so it is asked again and again with no patience.
		impatient, cancel := context.WithTimeout(ctx, 500*time.Microsecond)
		err := s.WaitForHandlersSync(impatient)
		cancel()
		if err == nil && s.informersSynced() {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the informers did not sync")
		}
	}
}

func (s *realScheduler) informersSynced() bool {
	stopped := make(chan struct{})
	close(stopped)
	for _, synced := range s.factory.WaitForCacheSync(stopped) {
		if !synced {
			return false
		}
	}
	return true
}

// updateSnapshot brings the snapshot all profiles share up to date with the cache.
func (s *realScheduler) updateSnapshot(ctx context.Context, fw framework.Framework) error {
	snapshot, ok := fw.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		return fmt.Errorf("unexpected snapshot %T", fw.SnapshotSharedLister())
	}
	return s.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot)
}

// listSorted makes the fake API server list nodes, pods and classes of devices by namespace and name,
// as a real one does: the cache depends on that order (image sizes, order of nominated pods, which of
// two classes has an extended resource).
func listSorted(client *fake.Clientset, objects []runtime.Object) {
	nodes, pods, classes := &v1.NodeList{}, &v1.PodList{}, &resourceapi.DeviceClassList{}
	for _, obj := range objects {
		switch o := obj.(type) {
		case *v1.Node:
			nodes.Items = append(nodes.Items, *o)
		case *v1.Pod:
			pods.Items = append(pods.Items, *o)
		case *resourceapi.DeviceClass:
			classes.Items = append(classes.Items, *o)
		}
	}
	slices.SortFunc(nodes.Items, func(a, b v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(pods.Items, func(a, b v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(classes.Items, func(a, b resourceapi.DeviceClass) int { return cmp.Compare(a.Name, b.Name) })
	answerWith := func(list runtime.Object) clienttesting.ReactionFunc {
		return func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, list.DeepCopyObject(), nil
		}
	}
	client.PrependReactor("list", "nodes", answerWith(nodes))
	client.PrependReactor("list", "pods", answerWith(pods))
	client.PrependReactor("list", "deviceclasses", answerWith(classes))
	// Nothing changes while a case is judged; the fake's own watch would repeat the list.
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewFake(), nil
	})
}
