package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"sigs.k8s.io/yaml"
)

// clusterCase is one question: a cluster, and the configuration its pods are judged with.
type clusterCase struct {
	rawConfig json.RawMessage
	objects   []runtime.Object
	preempt   bool // whether pods that fit nowhere may preempt
}

// caseFromJSON reads a case; the fields that only one command knows go into `more`.
func caseFromJSON(line []byte, more ...any) (*clusterCase, error) {
	var raw struct {
		Config  json.RawMessage   `json:"config"`
		Objects []json.RawMessage `json:"objects"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return nil, err
	}
	for _, into := range more {
		if err := json.Unmarshal(line, into); err != nil {
			return nil, err
		}
	}
	c := &clusterCase{}
	if len(raw.Config) > 0 && string(raw.Config) != "null" {
		c.rawConfig = raw.Config
	}
	for i, data := range raw.Objects {
		if err := c.add(data); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	return c, nil
}

func caseFromFiles(files []string, configFile string) (*clusterCase, error) {
	c := &clusterCase{}
	if configFile != "" {
		data, err := os.ReadFile(configFile)
		if err != nil {
			return nil, err
		}
		if c.rawConfig, err = yaml.YAMLToJSON(data); err != nil {
			return nil, fmt.Errorf("%s: %w", configFile, err)
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		for i := 0; ; i++ {
			var document json.RawMessage
			if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: document %d: %w", file, i, err)
			}
			if len(document) == 0 || string(document) == "null" {
				continue
			}
			if err := c.add(document); err != nil {
				return nil, fmt.Errorf("%s: document %d: %w", file, i, err)
			}
		}
	}
	return c, nil
}

// add decodes one object or List, and fills in what the API server always fills in.
func (c *clusterCase) add(data []byte) error {
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if list.Kind == "List" {
		for i, item := range list.Items {
			if err := c.add(item); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	obj, gvk, err := clientscheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return nil // custom resources are no business of the scheduler
	}
	if err != nil {
		return err
	}
	if meta.IsListType(obj) {
		items, err := meta.ExtractList(obj)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := c.hold(item); err != nil {
				return err
			}
		}
		return nil
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return c.hold(obj)
}

func (c *clusterCase) hold(obj runtime.Object) error {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	kinds, _, err := clientscheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return err
	}
	if node, ok := obj.(*v1.Node); ok && len(node.Status.Allocatable) == 0 {
		// The API server does not store an empty one, and fills it in whenever it reads the node.
		node.Status.Allocatable = nil
	}
	legacyscheme.Scheme.Default(obj)
	obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	if accessor.GetUID() == "" {
		// The scheduler's cache is keyed by UID; a name is unique among the objects of a case.
		accessor.SetUID(types.UID(fmt.Sprintf("%s/%s/%s", kinds[0].Kind, accessor.GetNamespace(), accessor.GetName())))
	}
	c.objects = append(c.objects, obj)
	return nil
}
