// Command node is what a Kubernetes node runs, in one binary: the name it is started by, or else
// its first argument, says which program it becomes (kubelet, kube-proxy, a device plugin or a DRA
// driver); the rest are that program's own arguments.
//
// It exists because end-to-end tests need real nodes on machines that can fetch nothing but Go
// modules. Nothing here may change what the programs do.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps a name to the command of that program, which reads os.Args itself.
var programs = map[string]func() *cobra.Command{
	"kubelet":       func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy":    proxy.NewProxyCommand,
	"device-plugin": newDevicePluginCommand,
	"dra-driver":    newDRADriverCommand,
}

func main() {
	if os.Args[0] = filepath.Base(os.Args[0]); programs[os.Args[0]] == nil {
		os.Args = os.Args[1:]
	}
	if len(os.Args) == 0 || programs[os.Args[0]] == nil {
		fmt.Fprintln(os.Stderr, "usage: node kubelet|kube-proxy|device-plugin|dra-driver [ARGUMENT...]")
		os.Exit(2)
	}
	os.Exit(cli.Run(programs[os.Args[0]]()))
}
