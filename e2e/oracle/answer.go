package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

// Answer is what `stowage explain -o json` prints for one case.
type Answer struct {
	Pods  []PodAnswer `json:"pods"`
	Error string      `json:"error,omitempty"`
}

// AdmittedAnswer is an answer together with the objects it is about, as the API server holds them.
type AdmittedAnswer struct {
	Config  json.RawMessage  `json:"config,omitempty"`
	Objects []runtime.Object `json:"objects"`
	Invalid []string         `json:"invalid,omitempty"`
	Answer  Answer           `json:"answer"`
}

// admit has the API server admit the objects of a case, and reports whether it accepts them all.
func (a *AdmittedAnswer) admit(c *clusterCase) bool {
	a.Invalid = c.admit()
	a.Config, a.Objects = c.rawConfig, c.objects
	return len(a.Invalid) == 0
}

// PodAnswer is the verdict on one pending pod.
type PodAnswer struct {
	Pod        string       `json:"pod"`
	Profile    string       `json:"profile"`
	PreEnqueue *Gate        `json:"preEnqueue"`
	PreFilter  *Rejection   `json:"preFilter"`
	Nodes      []NodeAnswer `json:"nodes"`
	Message    string       `json:"message"`

	Preemption *PreemptionAnswer `json:"preemption,omitempty"`

	Error string `json:"error,omitempty"`
}

// Gate is the first PreEnqueue plugin that holds a pod back.
type Gate struct {
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

// Rejection is a PreFilter plugin's refusal of the pod as a whole.
type Rejection struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// NodeAnswer says why a node is out, or what each score plugin gives it.
type NodeAnswer struct {
	Node     string           `json:"node"`
	Feasible bool             `json:"feasible"`
	Scores   map[string]Score `json:"scores,omitzero"`
	Total    *int64           `json:"total,omitempty"`
	// Devices has what each of the pod's claims would get here, by the claim's name in the pod.
	Devices map[string][]DeviceAnswer `json:"devices,omitempty"`

	Plugin  *string  `json:"plugin,omitempty"`
	Code    string   `json:"code,omitempty"`
	Reasons []string `json:"reasons,omitzero"`
}

// Score is one plugin's score for one node, after normalisation and after its weight.
type Score struct {
	Normalized int64 `json:"normalized"`
	Weighted   int64 `json:"weighted"`
}
