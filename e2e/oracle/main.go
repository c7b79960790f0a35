// Command oracle loads the scheduling framework of kube-scheduler 1.36.3 and prints, for files of
// cluster objects, every plugin's verdict and score for every node, in the form of
// `stowage explain -o json`.
//
// It exists so that parity is proved by asking the real thing. It decides nothing itself: what it
// prints comes from the framework's own calls, and each answer is checked against the scheduler's
// own SchedulePod.
//
//	oracle [-admit] [-preempt] [-feature-gates G] [-workers N]  cases as JSON lines on standard input, answers on output
//	oracle -f FILE... [-profile-config F]  objects from YAML or JSON files, one answer
//	oracle -check                          cases on standard input, their invalid objects on output
//	oracle -hints                          cases with questions about queueing hints, answers on output
//	oracle -sampling                       cases whose pods are tried one after the other, the search on output
//	oracle -groups                         cases with units to try, the ends of attempts on output
//	oracle -history                        cases with steps to live through, the state after each on output
//	oracle -cel                            expressions about devices, verdicts on output
//	oracle -config FILE                    accept (effective configuration on output) or reject
//	oracle -configs                        the same for JSON lines {"config": "YAML or JSON text"}
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

func main() {
	var files stringList
	flag.Var(&files, "f", "file of Kubernetes objects; further files may follow as arguments")
	profileConfig := flag.String("profile-config", "", "KubeSchedulerConfiguration used with -f")
	admitCases := flag.Bool("admit", false, "treat objects as creation requests: default, mutate and validate them as the API server would, and print them with the answer")
	preempt := flag.Bool("preempt", false, "let pods that fit nowhere preempt, all nodes being candidates")
	gates := flag.String("feature-gates", "", "feature gates, as kube-scheduler's flag")
	check := flag.Bool("check", false, "only report objects the API server would refuse")
	hints := flag.Bool("hints", false, "answer the cases' questions about queueing hints")
	groups := flag.Bool("groups", false, "try single pods and groups one after the other, and tell how each attempt ends")
	histories := flag.Bool("history", false, "live through steps one after the other, and tell what each has led to")
	sampling := flag.Bool("sampling", false, "try pods one after the other, and tell how many nodes were searched")
	cel := flag.Bool("cel", false, "answer what expressions say of devices")
	configFile := flag.String("config", "", "check one KubeSchedulerConfiguration file")
	configs := flag.Bool("configs", false, "check configurations given as JSON lines")
	workers := flag.Int("workers", 2, "cases evaluated at once")
	flag.Parse()

	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	}
	// Rejections are answers here, not news.
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil //nolint:reassign // the scheduler reports expected failures

	var err error
	switch {
	case *configFile != "":
		err = checkConfigFile(*configFile)
	case *configs:
		err = eachLine(os.Stdin, os.Stdout, *workers, checkConfigLine)
	case len(files) > 0:
		err = answerFiles(append(files, flag.Args()...), *profileConfig, *preempt)
	case *hints:
		err = eachLine(os.Stdin, os.Stdout, *workers, hintsLine)
	case *groups:
		err = eachLine(os.Stdin, os.Stdout, *workers, groupsLine)
	case *histories:
		err = eachLine(os.Stdin, os.Stdout, *workers, historyLine)
	case *sampling:
		err = eachLine(os.Stdin, os.Stdout, *workers, samplingLine)
	case *cel:
		err = eachLine(os.Stdin, os.Stdout, *workers, celLine)
	case *check:
		err = eachLine(os.Stdin, os.Stdout, *workers, checkCase)
	default:
		err = eachLine(os.Stdin, os.Stdout, *workers, func(line []byte) any {
			return answerLine(line, *admitCases, *preempt)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// stringList is a flag that may be repeated.
type stringList []string

func (l *stringList) String() string { return fmt.Sprint(*l) }

func (l *stringList) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func answerFiles(files []string, configFile string, preempt bool) error {
	c, err := caseFromFiles(files, configFile)
	if err != nil {
		return err
	}
	if err := c.resolveTemplates(); err != nil {
		return err
	}
	c.preempt = preempt
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(answer(c))
}

func answerLine(line []byte, admitObjects, preempt bool) any {
	c, err := caseFromJSON(line)
	if err != nil {
		return Answer{Pods: []PodAnswer{}, Error: err.Error()}
	}
	c.preempt = preempt
	if !admitObjects {
		return answer(c)
	}
	if err := c.resolveTemplates(); err != nil {
		return Answer{Pods: []PodAnswer{}, Error: err.Error()}
	}
	var result AdmittedAnswer
	if !result.admit(c) {
		result.Answer = Answer{Pods: []PodAnswer{}, Error: "the API server refuses objects of this case"}
	} else {
		result.Answer = answer(c)
	}
	return result
}

func checkCase(line []byte) any {
	c, err := caseFromJSON(line)
	if err != nil {
		return Answer{Pods: []PodAnswer{}, Error: err.Error()}
	}
	return map[string]any{"invalid": append([]string{}, c.admit()...)}
}
