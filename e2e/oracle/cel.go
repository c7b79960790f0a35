package main

import (
	"context"
	"encoding/json"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// celQuestion asks what an expression says of devices, which are written as in a ResourceSlice, each
// with its driver.
type celQuestion struct {
	Expression string `json:"expression"`
	Devices    []struct {
		Driver                   string                                                    `json:"driver"`
		AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
		Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
		Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	} `json:"devices"`
}

// CELAnswer has either why the expression cannot be compiled, or what it says of each device.
type CELAnswer struct {
	Refused  string       `json:"refused,omitempty"`
	Verdicts []CELVerdict `json:"verdicts"`
	Error    string       `json:"error,omitempty"`
}

// CELVerdict is whether a device matches, or why that cannot be said, and what saying it cost.
type CELVerdict struct {
	Match bool   `json:"match"`
	Error string `json:"error,omitempty"`
	Cost  uint64 `json:"cost"`
}

// celLine answers a question with the compiler that kube-scheduler uses, for its default gates.
func celLine(line []byte) any {
	question := celQuestion{}
	answer := CELAnswer{Verdicts: []CELVerdict{}}
	if err := json.Unmarshal(line, &question); err != nil {
		answer.Error = err.Error()
		return answer
	}
	compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true})
	compiled := compiler.CompileCELExpression(question.Expression, dracel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		answer.Refused = compiled.Error.Error()
		return answer
	}
	for _, device := range question.Devices {
		match, details, err := compiled.DeviceMatches(context.Background(), dracel.Device{
			Driver:                   device.Driver,
			AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes:               device.Attributes,
			Capacity:                 device.Capacity,
		})
		verdict := CELVerdict{Match: match}
		if cost := details.ActualCost(); cost != nil {
			verdict.Cost = *cost
		}
		if err != nil {
			verdict.Error = err.Error()
		}
		answer.Verdicts = append(answer.Verdicts, verdict)
	}
	return answer
}
