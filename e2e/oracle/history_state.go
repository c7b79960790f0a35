package main

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// StepAnswer is the state after a step, and the attempt that it was.
type StepAnswer struct {
	Tried *Tried `json:"tried"`
	// Pods are those in the queue.
	Pods map[string]QueuedPod `json:"pods"`
	// Next are the pods that would be tried without another event, the next one first.
	Next []string `json:"next"`
	// Nodes has the pods that the cache counts on each node.
	Nodes map[string][]string `json:"nodes"`
	// Nominated has the pods for which each node keeps room.
	Nominated map[string][]string `json:"nominated"`
	// Evictions are the victims that the API server was asked to delete, with the condition that
	// was written before.
	Evictions map[string]*Condition `json:"evictions"`
	// Start is the index at which the next search for nodes begins.
	Start int64 `json:"start"`
	// Devices are those in use.
	Devices []string `json:"devices,omitempty"`
	// Consumed is what is in use of shared devices.
	Consumed map[string]map[string]float64 `json:"consumed,omitempty"`
	// Written is what was written to the status of claims, to volumes and to their claims.
	Written map[string]any `json:"written,omitempty"`
	// Gates has for each member of a group in the queue the PreEnqueue plugins that reject it now.
	Gates map[string]map[string][]string `json:"gates,omitempty"`
	// Groups has for each group the pods that it has, and those of them on nodes.
	Groups map[string][2]int `json:"groups,omitempty"`
	// Placed are members that could be placed although Stowage has nothing to try.
	Placed []string `json:"placed,omitempty"`
}

// QueuedPod is what the queue knows of a pod.
type QueuedPod struct {
	Place          string   `json:"place"`
	Since          int64    `json:"since"`
	Until          int64    `json:"until,omitempty"`
	Attempts       int      `json:"attempts"`
	Rejections     int      `json:"rejections"`
	Errors         int      `json:"errors"`
	Unschedulable  []string `json:"unschedulable"`
	PendingPlugins []string `json:"pending"`
	Gate           string   `json:"gate,omitempty"`
}

// next returns the pods that can be popped: the active ones, then those whose backoff may be cut
// short, which are those that a plugin has rejected.
func (h *history) next() []*framework.QueuedPodInfo {
	active := h.infos(h.queue.PodsInActiveQ())
	early := slices.DeleteFunc(h.infos(h.queue.PodsInBackoffQ()), func(info *framework.QueuedPodInfo) bool {
		return info.UnschedulablePlugins.Len()+info.PendingPlugins.Len() == 0
	})
	var less fwk.LessFunc
	for _, fw := range h.Profiles {
		less = fw.QueueSortFunc()
	}
	byTurn := func(a, b *framework.QueuedPodInfo) int {
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return cmp.Compare(key(a.Pod), key(b.Pod))
	}
	slices.SortFunc(active, byTurn)
	slices.SortFunc(early, func(a, b *framework.QueuedPodInfo) int {
		return cmp.Or(a.BackoffExpiration.Compare(b.BackoffExpiration), byTurn(a, b))
	})
	return append(active, early...)
}

func (h *history) infos(pods []*v1.Pod) []*framework.QueuedPodInfo {
	found := []*framework.QueuedPodInfo{}
	for _, pod := range pods {
		if info, ok := h.queue.GetPod(pod.Name, pod.Namespace); ok {
			found = append(found, info)
		}
	}
	return found
}

func (h *history) state() StepAnswer {
	answer := StepAnswer{
		Pods: map[string]QueuedPod{}, Next: []string{}, Nodes: map[string][]string{}, Nominated: map[string][]string{},
	}
	answer.Start = h.nextStart()
	answer.Devices, answer.Consumed = h.allocatedDevices(), h.consumedCapacity()
	for place, pods := range map[string][]*v1.Pod{
		"active": h.queue.PodsInActiveQ(), "backoff": h.queue.PodsInBackoffQ(), "unschedulable": h.queue.UnschedulablePods(),
	} {
		for _, info := range h.infos(pods) {
			answer.Pods[key(info.Pod)] = queuedPod(place, info)
		}
	}
	for _, info := range h.next() {
		answer.Next = append(answer.Next, key(info.Pod))
	}
	for name, node := range h.Cache.Dump().Nodes {
		if node.Node() == nil {
			continue
		}
		names := []string{}
		for _, pod := range node.GetPods() {
			names = append(names, key(pod.GetPod()))
		}
		slices.Sort(names)
		answer.Nodes[name] = names
	}
	for name := range h.nodeNames {
		names := []string{}
		for _, pod := range h.queue.NominatedPodsForNode(name) {
			names = append(names, key(pod.GetPod()))
		}
		if slices.Sort(names); len(names) > 0 {
			answer.Nominated[name] = names
		}
	}
	return answer
}

func queuedPod(place string, info *framework.QueuedPodInfo) QueuedPod {
	queued := QueuedPod{
		Place:          place,
		Since:          units(info.Timestamp),
		Attempts:       info.Attempts,
		Rejections:     info.UnschedulableCount,
		Errors:         info.ConsecutiveErrorsCount,
		Unschedulable:  append([]string{}, info.UnschedulablePlugins.UnsortedList()...),
		PendingPlugins: append([]string{}, info.PendingPlugins.UnsortedList()...),
		Gate:           info.GatingPlugin,
	}
	slices.Sort(queued.Unschedulable)
	slices.Sort(queued.PendingPlugins)
	if place == "unschedulable" && info.Gated() {
		queued.Place = "gated"
	}
	if place == "backoff" {
		queued.Until = units(info.BackoffExpiration)
	}
	return queued
}

func units(at time.Time) int64 {
	return int64((at.Sub(historyBase)*unitsPerSecond + time.Second/2) / time.Second)
}
