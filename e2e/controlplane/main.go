// Command controlplane is a Kubernetes control plane in one binary: the name it is started by, or
// else its first argument, says which program it becomes (etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler or kubectl); the rest are that program's own arguments.
//
// It exists because end-to-end tests need the real thing on machines that have no container
// runtime and can fetch nothing but Go modules. Nothing here may change what the programs do.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs maps a name to what runs; each is handed the full argument list with its
// own name first, as if it had been started as a binary of its own.
var programs = map[string]func(args []string) int{
	"etcd": func(args []string) int {
		etcdmain.Main(args)
		return 0
	},
	"kube-apiserver":          func([]string) int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func([]string) int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func([]string) int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 func([]string) int { return runKubectl(kubectl.NewDefaultKubectlCommand()) },
}

func main() {
	// The commands read os.Args themselves, some of them (kubectl) while they are being built.
	if os.Args[0] = filepath.Base(os.Args[0]); programs[os.Args[0]] == nil {
		os.Args = os.Args[1:]
	}
	if len(os.Args) == 0 || programs[os.Args[0]] == nil {
		fmt.Fprintf(os.Stderr, "usage: controlplane PROGRAM [ARGUMENT...]\nPROGRAM is one of: %s\n",
			strings.Join(names(), ", "))
		os.Exit(2)
	}
	os.Exit(programs[os.Args[0]](os.Args))
}

func names() []string {
	var result []string
	for name := range programs {
		result = append(result, name)
	}
	slices.Sort(result)
	return result
}

// runKubectl ends with kubectl's exit codes and error texts, which the servers do not have.
func runKubectl(command *cobra.Command) int {
	if err := cli.RunNoErrOutput(command); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
