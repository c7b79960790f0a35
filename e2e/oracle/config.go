package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"
)

// loadConfig decodes, defaults and validates a KubeSchedulerConfiguration; nothing means the
// built-in one.
func loadConfig(data []byte) (*config.KubeSchedulerConfiguration, error) {
	if len(data) == 0 {
		return latest.Default()
	}
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", gvk)
	}
	cfg.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}

// effectiveConfig builds the profiles as well, because some mistakes only show there, and returns
// what kube-scheduler writes with --write-config-to.
func effectiveConfig(data []byte) ([]byte, error) {
	cfg, err := loadConfig(data)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := newScheduler(ctx, cfg, nil)
	if err != nil {
		return nil, err
	}
	cfg.Profiles = s.completedProfiles
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	var buffer bytes.Buffer
	err = scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion).Encode(cfg, &buffer)
	return buffer.Bytes(), err
}

func checkConfigFile(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	effective, err := effectiveConfig(data)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(effective)
	return err
}

func checkConfigLine(line []byte) any {
	var question struct {
		Config string `json:"config"`
	}
	if err := json.Unmarshal(line, &question); err != nil {
		return map[string]any{"error": err.Error()}
	}
	effective, err := effectiveConfig([]byte(question.Config))
	if err != nil {
		return map[string]any{"accepted": false, "error": err.Error()}
	}
	asJSON, err := yaml.YAMLToJSON(effective)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"accepted": true, "effective": json.RawMessage(asJSON)}
}
