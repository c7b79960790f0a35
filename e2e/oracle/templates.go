package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// podClaimAnnotation is what the controller for claims puts on those it made, see
// pkg/controller/resourceclaim/controller.go.
const podClaimAnnotation = "resource.kubernetes.io/pod-claim-name"

// resolveTemplates makes the claims that the controller would have made for pods which name a
// template that is there, and tells the pods. A pod whose status speaks of a claim is left alone.
func (c *clusterCase) resolveTemplates() error {
	templates := map[string]*resourceapi.ResourceClaimTemplate{}
	for _, obj := range c.objects {
		if template, ok := obj.(*resourceapi.ResourceClaimTemplate); ok {
			templates[template.Namespace+"/"+template.Name] = template
		}
	}
	for _, obj := range c.objects {
		pod, ok := obj.(*v1.Pod)
		if !ok || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed || pod.DeletionTimestamp != nil {
			continue
		}
		for _, podClaim := range pod.Spec.ResourceClaims {
			if podClaim.ResourceClaimTemplateName == nil || hasClaimStatus(pod, podClaim.Name) {
				continue
			}
			template := templates[pod.Namespace+"/"+*podClaim.ResourceClaimTemplateName]
			if template == nil {
				continue
			}
			claim := claimFromTemplate(pod, podClaim.Name, template)
			if err := c.hold(claim); err != nil {
				return err
			}
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
				v1.PodResourceClaimStatus{Name: podClaim.Name, ResourceClaimName: ptr.To(claim.Name)})
		}
	}
	return nil
}

func hasClaimStatus(pod *v1.Pod, name string) bool {
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name == name {
			return true
		}
	}
	return false
}

func claimFromTemplate(pod *v1.Pod, name string, template *resourceapi.ResourceClaimTemplate) *resourceapi.ResourceClaim {
	prefix := fmt.Sprintf("%s-%s-", pod.Name, name)
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:         prefix + "claim",
			GenerateName: prefix,
			Namespace:    pod.Namespace,
			Labels:       template.Spec.Labels,
			Annotations:  map[string]string{podClaimAnnotation: name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
	for key, value := range template.Spec.Annotations {
		claim.Annotations[key] = value
	}
	return claim
}
