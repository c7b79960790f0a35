package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// devicePlugin offers a number of devices that are nothing: it lets tests see what kubelet and
// schedulers make of an extended resource that comes and goes.
type devicePlugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *devicePlugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *devicePlugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return answer, nil
}

func newDevicePluginCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "device-plugin RESOURCE COUNT",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, arguments []string) error {
			count, err := strconv.Atoi(arguments[1])
			if err != nil {
				return err
			}
			return serveDevices(arguments[0], count)
		},
	}
}

func serveDevices(resource string, count int) error {
	plugin := &devicePlugin{}
	for i := range count {
		plugin.devices = append(plugin.devices, &api.Device{ID: fmt.Sprint(i), Health: api.Healthy})
	}
	endpoint := "e2e.sock"
	path := filepath.Join(api.DevicePluginPath, endpoint)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, plugin)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: resource}
	if _, err := api.NewRegistrationClient(connection).Register(context.Background(), request); err != nil {
		return err
	}
	return <-ended
}
