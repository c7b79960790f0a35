package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// draDriver prepares claims for devices that are nothing: kubelet starts no pod with a claim
// unless the driver of its devices says that they are ready.
type draDriver struct {
	name string
	fail func(error)
}

func (d *draDriver) PrepareResourceClaims(_ context.Context, claims []*resource.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	prepared := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		prepared[claim.UID] = d.prepare(claim)
	}
	return prepared, nil
}

func (d *draDriver) prepare(claim *resource.ResourceClaim) kubeletplugin.PrepareResult {
	if claim.Status.Allocation == nil {
		return kubeletplugin.PrepareResult{Err: fmt.Errorf("claim %s/%s is not allocated", claim.Namespace, claim.Name)}
	}
	result := kubeletplugin.PrepareResult{}
	for _, given := range claim.Status.Allocation.Devices.Results {
		if given.Driver == d.name {
			result.Devices = append(result.Devices, kubeletplugin.Device{
				Requests:   []string{given.Request},
				PoolName:   given.Pool,
				DeviceName: given.Device,
			})
		}
	}
	return result
}

func (d *draDriver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	done := map[types.UID]error{}
	for _, claim := range claims {
		done[claim.UID] = nil
	}
	return done, nil
}

func (d *draDriver) HandleError(_ context.Context, err error, message string) {
	d.fail(fmt.Errorf("%s: %w", message, err))
}

func newDRADriverCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "dra-driver KUBECONFIG NODE DRIVER COUNT",
		Args: cobra.ExactArgs(4),
		RunE: func(_ *cobra.Command, arguments []string) error {
			count, err := strconv.Atoi(arguments[3])
			if err != nil {
				return err
			}
			return serveClaims(arguments[0], arguments[1], arguments[2], count)
		},
	}
}

// serveClaims registers the driver with kubelet and publishes the devices of the node, until the
// process is asked to end.
func serveClaims(kubeconfig, node, name string, count int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, folder := range []string{kubeletplugin.KubeletRegistryDir, filepath.Join(kubeletplugin.KubeletPluginsDir, name)} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(
		ctx,
		&draDriver{name: name, fail: fail},
		kubeletplugin.DriverName(name),
		kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(node),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	slice := resourceslice.Slice{}
	for i := range count {
		slice.Devices = append(slice.Devices, resource.Device{Name: fmt.Sprintf("device-%d", i)})
	}
	pools := map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{slice}}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools}); err != nil {
		return err
	}
	<-ctx.Done()
	if err := context.Cause(ctx); err != context.Canceled {
		return err
	}
	return nil
}
