"""Field names and types of the kinds the sandbox serves. Made by regenerate.py.

A type is a line with its name, its fields follow indented: name, type, number in protobuf (a path
where the field is inlined in JSON), then how lists merge (`merge=A,B` by the field A, in
server-side apply by A and B; `merge` as a set of primitives; `keys=A,B` in server-side apply only;
`retain` the retainKeys strategy; `atomic` a map replaced as a whole).
Source: Kubernetes v1.36.3 api/openapi-spec/swagger.json, generated.proto of each group.
"""

from typing import Final

FIELDS: Final = """
apps.DaemonSet
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec apps.DaemonSetSpec 2
 status apps.DaemonSetStatus 3
apps.DaemonSetStatus
 collisionCount int 9
 conditions []apps.DaemonSetCondition 10 merge=type
 currentNumberScheduled int 1
 desiredNumberScheduled int 3
 numberAvailable int 7
 numberMisscheduled int 2
 numberReady int 4
 numberUnavailable int 8
 observedGeneration int 5
 updatedNumberScheduled int 6
apps.DaemonSetCondition
 lastTransitionTime time 3
 message string 5
 reason string 4
 status string 2
 type string 1
apps.DaemonSetSpec
 minReadySeconds int 4
 revisionHistoryLimit int 6
 selector meta.LabelSelector 1
 template core.PodTemplateSpec 2
 updateStrategy apps.DaemonSetUpdateStrategy 3
apps.DaemonSetUpdateStrategy
 rollingUpdate apps.RollingUpdateDaemonSet 2
 type string 1
apps.RollingUpdateDaemonSet
 maxSurge intstr 2
 maxUnavailable intstr 1
core.PodTemplateSpec
 metadata meta.ObjectMeta 1
 spec core.PodSpec 2
core.PodSpec
 activeDeadlineSeconds int 5
 affinity core.Affinity 18
 automountServiceAccountToken bool 21
 containers []core.Container 2 merge=name
 dnsConfig core.PodDNSConfig 26
 dnsPolicy string 6
 enableServiceLinks bool 30
 ephemeralContainers []core.EphemeralContainer 34 merge=name
 hostAliases []core.HostAlias 23 merge=ip
 hostIPC bool 13
 hostNetwork bool 11
 hostPID bool 12
 hostUsers bool 37
 hostname string 16
 hostnameOverride string 41
 imagePullSecrets []core.LocalObjectReference 15 merge=name
 initContainers []core.Container 20 merge=name
 nodeName string 10
 nodeSelector {}string 7 atomic
 os core.PodOS 36
 overhead {}quantity 32
 preemptionPolicy string 31
 priority int 25
 priorityClassName string 24
 readinessGates []core.PodReadinessGate 28
 resourceClaims []core.PodResourceClaim 39 merge=name retain
 resources core.ResourceRequirements 40
 restartPolicy string 3
 runtimeClassName string 29
 schedulerName string 19
 schedulingGates []core.PodSchedulingGate 38 merge=name
 schedulingGroup core.PodSchedulingGroup 43
 securityContext core.PodSecurityContext 14
 serviceAccount string 9
 serviceAccountName string 8
 setHostnameAsFQDN bool 35
 shareProcessNamespace bool 27
 subdomain string 17
 terminationGracePeriodSeconds int 4
 tolerations []core.Toleration 22
 topologySpreadConstraints []core.TopologySpreadConstraint 33 merge=topologyKey,whenUnsatisfiable
 volumes []core.Volume 1 merge=name retain
core.Volume
 awsElasticBlockStore core.AWSElasticBlockStoreVolumeSource 2.4
 azureDisk any 2.22
 azureFile any 2.18
 cephfs any 2.14
 cinder any 2.13
 configMap core.ConfigMapVolumeSource 2.19
 csi core.CSIVolumeSource 2.28
 downwardAPI core.DownwardAPIVolumeSource 2.16
 emptyDir core.EmptyDirVolumeSource 2.2
 ephemeral core.EphemeralVolumeSource 2.29
 fc core.FCVolumeSource 2.17
 flexVolume any 2.12
 flocker any 2.15
 gcePersistentDisk core.GCEPersistentDiskVolumeSource 2.3
 gitRepo core.GitRepoVolumeSource 2.5
 glusterfs any 2.9
 hostPath core.HostPathVolumeSource 2.1
 image core.ImageVolumeSource 2.30
 iscsi core.ISCSIVolumeSource 2.8
 name string 1
 nfs core.NFSVolumeSource 2.7
 persistentVolumeClaim core.PersistentVolumeClaimVolumeSource 2.10
 photonPersistentDisk any 2.23
 portworxVolume any 2.24
 projected core.ProjectedVolumeSource 2.26
 quobyte any 2.21
 rbd core.RBDVolumeSource 2.11
 scaleIO any 2.25
 secret core.SecretVolumeSource 2.6
 storageos any 2.27
 vsphereVolume any 2.20
core.SecretVolumeSource
 defaultMode int 3
 items []core.KeyToPath 2
 optional bool 4
 secretName string 1
core.KeyToPath
 key string 1
 mode int 3
 path string 2
core.RBDVolumeSource
 fsType string 3
 image string 2
 keyring string 6
 monitors []string 1
 pool string 4
 readOnly bool 8
 secretRef core.LocalObjectReference 7
 user string 5
core.ProjectedVolumeSource
 defaultMode int 2
 sources []core.VolumeProjection 1
core.VolumeProjection
 clusterTrustBundle core.ClusterTrustBundleProjection 5
 configMap core.ConfigMapProjection 3
 downwardAPI core.DownwardAPIProjection 2
 podCertificate core.PodCertificateProjection 6
 secret core.SecretProjection 1
 serviceAccountToken core.ServiceAccountTokenProjection 4
core.ServiceAccountTokenProjection
 audience string 1
 expirationSeconds int 2
 path string 3
core.SecretProjection
 items []core.KeyToPath 2
 name string 1.1
 optional bool 4
core.PodCertificateProjection
 certificateChainPath string 6
 credentialBundlePath string 4
 keyPath string 5
 keyType string 2
 maxExpirationSeconds int 3
 signerName string 1
 userAnnotations {}string 7
core.DownwardAPIProjection
 items []core.DownwardAPIVolumeFile 1
core.DownwardAPIVolumeFile
 fieldRef core.ObjectFieldSelector 2
 mode int 4
 path string 1
 resourceFieldRef core.ResourceFieldSelector 3
core.ResourceFieldSelector
 containerName string 1
 divisor quantity 3
 resource string 2
core.ObjectFieldSelector
 apiVersion string 1
 fieldPath string 2
core.ConfigMapProjection
 items []core.KeyToPath 2
 name string 1.1
 optional bool 4
core.ClusterTrustBundleProjection
 labelSelector meta.LabelSelector 3
 name string 1
 optional bool 5
 path string 4
 signerName string 2
core.PersistentVolumeClaimVolumeSource
 claimName string 1
 readOnly bool 2
core.NFSVolumeSource
 path string 2
 readOnly bool 3
 server string 1
core.ISCSIVolumeSource
 chapAuthDiscovery bool 8
 chapAuthSession bool 11
 fsType string 5
 initiatorName string 12
 iqn string 2
 iscsiInterface string 4
 lun int 3
 portals []string 7
 readOnly bool 6
 secretRef core.LocalObjectReference 10
 targetPortal string 1
core.ImageVolumeSource
 pullPolicy string 2
 reference string 1
core.HostPathVolumeSource
 path string 1
 type string 2
core.GitRepoVolumeSource
 directory string 3
 repository string 1
 revision string 2
core.GCEPersistentDiskVolumeSource
 fsType string 2
 partition int 3
 pdName string 1
 readOnly bool 4
core.FCVolumeSource
 fsType string 3
 lun int 2
 readOnly bool 4
 targetWWNs []string 1
 wwids []string 5
core.EphemeralVolumeSource
 volumeClaimTemplate core.PersistentVolumeClaimTemplate 1
core.PersistentVolumeClaimTemplate
 metadata meta.ObjectMeta 1
 spec core.PersistentVolumeClaimSpec 2
core.PersistentVolumeClaimSpec
 accessModes []string 1
 dataSource core.TypedLocalObjectReference 7
 dataSourceRef core.TypedObjectReference 8
 resources core.VolumeResourceRequirements 2
 selector meta.LabelSelector 4
 storageClassName string 5
 volumeAttributesClassName string 9
 volumeMode string 6
 volumeName string 3
core.VolumeResourceRequirements
 limits {}quantity 1
 requests {}quantity 2
core.TypedObjectReference
 apiGroup string 1
 kind string 2
 name string 3
 namespace string 4
core.TypedLocalObjectReference
 apiGroup string 1
 kind string 2
 name string 3
core.EmptyDirVolumeSource
 medium string 1
 sizeLimit quantity 2
core.DownwardAPIVolumeSource
 defaultMode int 2
 items []core.DownwardAPIVolumeFile 1
core.CSIVolumeSource
 driver string 1
 fsType string 3
 nodePublishSecretRef core.LocalObjectReference 5
 readOnly bool 2
 volumeAttributes {}string 4
core.ConfigMapVolumeSource
 defaultMode int 3
 items []core.KeyToPath 2
 name string 1.1
 optional bool 4
core.AWSElasticBlockStoreVolumeSource
 fsType string 2
 partition int 3
 readOnly bool 4
 volumeID string 1
core.TopologySpreadConstraint
 labelSelector meta.LabelSelector 4
 matchLabelKeys []string 8
 maxSkew int 1
 minDomains int 5
 nodeAffinityPolicy string 6
 nodeTaintsPolicy string 7
 topologyKey string 2
 whenUnsatisfiable string 3
core.Toleration
 effect string 4
 key string 1
 operator string 2
 tolerationSeconds int 5
 value string 3
core.PodSecurityContext
 appArmorProfile core.AppArmorProfile 11
 fsGroup int 5
 fsGroupChangePolicy string 9
 runAsGroup int 6
 runAsNonRoot bool 3
 runAsUser int 2
 seLinuxChangePolicy string 13
 seLinuxOptions core.SELinuxOptions 1
 seccompProfile core.SeccompProfile 10
 supplementalGroups []int 4
 supplementalGroupsPolicy string 12
 sysctls []core.Sysctl 7
 windowsOptions any 8
core.Sysctl
 name string 1
 value string 2
core.SeccompProfile
 localhostProfile string 2
 type string 1
core.SELinuxOptions
 level string 4
 role string 2
 type string 3
 user string 1
core.AppArmorProfile
 localhostProfile string 2
 type string 1
core.PodSchedulingGroup
 podGroupName string 1
core.PodSchedulingGate
 name string 1
core.ResourceRequirements
 claims []core.ResourceClaim 3 keys=name
 limits {}quantity 1
 requests {}quantity 2
core.ResourceClaim
 name string 1
 request string 2
core.PodResourceClaim
 name string 1
 resourceClaimName string 3
 resourceClaimTemplateName string 4
core.PodReadinessGate
 conditionType string 1
core.PodOS
 name string 1
core.LocalObjectReference
 name string 1
core.HostAlias
 hostnames []string 2
 ip string 1
core.EphemeralContainer
 args []string 1.4
 command []string 1.3
 env []core.EnvVar 1.7 merge=name
 envFrom []core.EnvFromSource 1.19
 image string 1.2
 imagePullPolicy string 1.14
 lifecycle core.Lifecycle 1.12
 livenessProbe core.Probe 1.10
 name string 1.1
 ports []core.ContainerPort 1.6 merge=containerPort,protocol
 readinessProbe core.Probe 1.11
 resizePolicy []core.ContainerResizePolicy 1.23
 resources core.ResourceRequirements 1.8
 restartPolicy string 1.24
 restartPolicyRules []core.ContainerRestartRule 1.25
 securityContext core.SecurityContext 1.15
 startupProbe core.Probe 1.22
 stdin bool 1.16
 stdinOnce bool 1.17
 targetContainerName string 2
 terminationMessagePath string 1.13
 terminationMessagePolicy string 1.20
 tty bool 1.18
 volumeDevices []core.VolumeDevice 1.21 merge=devicePath
 volumeMounts []core.VolumeMount 1.9 merge=mountPath
 workingDir string 1.5
core.VolumeMount
 mountPath string 3
 mountPropagation string 5
 name string 1
 readOnly bool 2
 recursiveReadOnly string 7
 subPath string 4
 subPathExpr string 6
core.VolumeDevice
 devicePath string 2
 name string 1
core.SecurityContext
 allowPrivilegeEscalation bool 7
 appArmorProfile core.AppArmorProfile 12
 capabilities core.Capabilities 1
 privileged bool 2
 procMount string 9
 readOnlyRootFilesystem bool 6
 runAsGroup int 8
 runAsNonRoot bool 5
 runAsUser int 4
 seLinuxOptions core.SELinuxOptions 3
 seccompProfile core.SeccompProfile 11
 windowsOptions any 10
core.Capabilities
 add []string 1
 drop []string 2
core.ContainerRestartRule
 action string 1
 exitCodes core.ContainerRestartRuleOnExitCodes 2
core.ContainerRestartRuleOnExitCodes
 operator string 1
 values []int 2
core.ContainerResizePolicy
 resourceName string 1
 restartPolicy string 2
core.ContainerPort
 containerPort int 3
 hostIP string 5
 hostPort int 2
 name string 1
 protocol string 4
core.Probe
 exec core.ExecAction 1.1
 failureThreshold int 6
 grpc core.GRPCAction 1.4
 httpGet core.HTTPGetAction 1.2
 initialDelaySeconds int 2
 periodSeconds int 4
 successThreshold int 5
 tcpSocket core.TCPSocketAction 1.3
 terminationGracePeriodSeconds int 7
 timeoutSeconds int 3
core.TCPSocketAction
 host string 2
 port intstr 1
core.HTTPGetAction
 host string 3
 httpHeaders []core.HTTPHeader 5
 path string 1
 port intstr 2
 scheme string 4
core.HTTPHeader
 name string 1
 value string 2
core.GRPCAction
 port int 1
 service string 2
core.ExecAction
 command []string 1
core.Lifecycle
 postStart core.LifecycleHandler 1
 preStop core.LifecycleHandler 2
 stopSignal string 3
core.LifecycleHandler
 exec core.ExecAction 1
 httpGet core.HTTPGetAction 2
 sleep core.SleepAction 4
 tcpSocket core.TCPSocketAction 3
core.SleepAction
 seconds int 1
core.EnvFromSource
 configMapRef core.ConfigMapEnvSource 2
 prefix string 1
 secretRef core.SecretEnvSource 3
core.SecretEnvSource
 name string 1.1
 optional bool 2
core.ConfigMapEnvSource
 name string 1.1
 optional bool 2
core.EnvVar
 name string 1
 value string 2
 valueFrom core.EnvVarSource 3
core.EnvVarSource
 configMapKeyRef core.ConfigMapKeySelector 3
 fieldRef core.ObjectFieldSelector 1
 fileKeyRef core.FileKeySelector 5
 resourceFieldRef core.ResourceFieldSelector 2
 secretKeyRef core.SecretKeySelector 4
core.SecretKeySelector
 key string 2
 name string 1.1
 optional bool 3
core.FileKeySelector
 key string 3
 optional bool 4
 path string 2
 volumeName string 1
core.ConfigMapKeySelector
 key string 2
 name string 1.1
 optional bool 3
core.PodDNSConfig
 nameservers []string 1
 options []core.PodDNSConfigOption 3
 searches []string 2
core.PodDNSConfigOption
 name string 1
 value string 2
core.Container
 args []string 4
 command []string 3
 env []core.EnvVar 7 merge=name
 envFrom []core.EnvFromSource 19
 image string 2
 imagePullPolicy string 14
 lifecycle core.Lifecycle 12
 livenessProbe core.Probe 10
 name string 1
 ports []core.ContainerPort 6 merge=containerPort,protocol
 readinessProbe core.Probe 11
 resizePolicy []core.ContainerResizePolicy 23
 resources core.ResourceRequirements 8
 restartPolicy string 24
 restartPolicyRules []core.ContainerRestartRule 25
 securityContext core.SecurityContext 15
 startupProbe core.Probe 22
 stdin bool 16
 stdinOnce bool 17
 terminationMessagePath string 13
 terminationMessagePolicy string 20
 tty bool 18
 volumeDevices []core.VolumeDevice 21 merge=devicePath
 volumeMounts []core.VolumeMount 9 merge=mountPath
 workingDir string 5
core.Affinity
 nodeAffinity core.NodeAffinity 1
 podAffinity core.PodAffinity 2
 podAntiAffinity core.PodAntiAffinity 3
core.PodAntiAffinity
 preferredDuringSchedulingIgnoredDuringExecution []core.WeightedPodAffinityTerm 2
 requiredDuringSchedulingIgnoredDuringExecution []core.PodAffinityTerm 1
core.PodAffinityTerm
 labelSelector meta.LabelSelector 1
 matchLabelKeys []string 5
 mismatchLabelKeys []string 6
 namespaceSelector meta.LabelSelector 4
 namespaces []string 2
 topologyKey string 3
core.WeightedPodAffinityTerm
 podAffinityTerm core.PodAffinityTerm 2
 weight int 1
core.PodAffinity
 preferredDuringSchedulingIgnoredDuringExecution []core.WeightedPodAffinityTerm 2
 requiredDuringSchedulingIgnoredDuringExecution []core.PodAffinityTerm 1
core.NodeAffinity
 preferredDuringSchedulingIgnoredDuringExecution []core.PreferredSchedulingTerm 2
 requiredDuringSchedulingIgnoredDuringExecution core.NodeSelector 1
core.NodeSelector
 nodeSelectorTerms []core.NodeSelectorTerm 1
core.NodeSelectorTerm
 matchExpressions []core.NodeSelectorRequirement 1
 matchFields []core.NodeSelectorRequirement 2
core.NodeSelectorRequirement
 key string 1
 operator string 2
 values []string 3
core.PreferredSchedulingTerm
 preference core.NodeSelectorTerm 2
 weight int 1
meta.LabelSelector
 matchExpressions []meta.LabelSelectorRequirement 2
 matchLabels {}string 1
meta.LabelSelectorRequirement
 key string 1
 operator string 2
 values []string 3
meta.ObjectMeta
 annotations {}string 12
 creationTimestamp time 8
 deletionGracePeriodSeconds int 10
 deletionTimestamp time 9
 finalizers []string 14 merge
 generateName string 2
 generation int 7
 labels {}string 11
 managedFields []any 17
 name string 1
 namespace string 3
 ownerReferences []meta.OwnerReference 13 merge=uid
 resourceVersion string 6
 selfLink string 4
 uid string 5
meta.OwnerReference
 apiVersion string 5
 blockOwnerDeletion bool 7
 controller bool 6
 kind string 1
 name string 3
 uid string 4
apps.Deployment
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec apps.DeploymentSpec 2
 status apps.DeploymentStatus 3
apps.DeploymentStatus
 availableReplicas int 4
 collisionCount int 8
 conditions []apps.DeploymentCondition 6 merge=type
 observedGeneration int 1
 readyReplicas int 7
 replicas int 2
 terminatingReplicas int 9
 unavailableReplicas int 5
 updatedReplicas int 3
apps.DeploymentCondition
 lastTransitionTime time 7
 lastUpdateTime time 6
 message string 5
 reason string 4
 status string 2
 type string 1
apps.DeploymentSpec
 minReadySeconds int 5
 paused bool 7
 progressDeadlineSeconds int 9
 replicas int 1
 revisionHistoryLimit int 6
 selector meta.LabelSelector 2
 strategy apps.DeploymentStrategy 4 retain
 template core.PodTemplateSpec 3
apps.DeploymentStrategy
 rollingUpdate apps.RollingUpdateDeployment 2
 type string 1
apps.RollingUpdateDeployment
 maxSurge intstr 2
 maxUnavailable intstr 1
apps.ReplicaSet
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec apps.ReplicaSetSpec 2
 status apps.ReplicaSetStatus 3
apps.ReplicaSetStatus
 availableReplicas int 5
 conditions []apps.ReplicaSetCondition 6 merge=type
 fullyLabeledReplicas int 2
 observedGeneration int 3
 readyReplicas int 4
 replicas int 1
 terminatingReplicas int 7
apps.ReplicaSetCondition
 lastTransitionTime time 3
 message string 5
 reason string 4
 status string 2
 type string 1
apps.ReplicaSetSpec
 minReadySeconds int 4
 replicas int 1
 selector meta.LabelSelector 2
 template core.PodTemplateSpec 3
apps.StatefulSet
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec apps.StatefulSetSpec 2
 status apps.StatefulSetStatus 3
apps.StatefulSetStatus
 availableReplicas int 11
 collisionCount int 9
 conditions []apps.StatefulSetCondition 10 merge=type
 currentReplicas int 4
 currentRevision string 6
 observedGeneration int 1
 readyReplicas int 3
 replicas int 2
 updateRevision string 7
 updatedReplicas int 5
apps.StatefulSetCondition
 lastTransitionTime time 3
 message string 5
 reason string 4
 status string 2
 type string 1
apps.StatefulSetSpec
 minReadySeconds int 9
 ordinals apps.StatefulSetOrdinals 11
 persistentVolumeClaimRetentionPolicy apps.StatefulSetPersistentVolumeClaimRetentionPolicy 10
 podManagementPolicy string 6
 replicas int 1
 revisionHistoryLimit int 8
 selector meta.LabelSelector 2
 serviceName string 5
 template core.PodTemplateSpec 3
 updateStrategy apps.StatefulSetUpdateStrategy 7
 volumeClaimTemplates []core.PersistentVolumeClaim 4
apps.StatefulSetUpdateStrategy
 rollingUpdate apps.RollingUpdateStatefulSetStrategy 2
 type string 1
apps.RollingUpdateStatefulSetStrategy
 maxUnavailable intstr 2
 partition int 1
apps.StatefulSetPersistentVolumeClaimRetentionPolicy
 whenDeleted string 1
 whenScaled string 2
apps.StatefulSetOrdinals
 start int 1
authentication.TokenRequest
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec authentication.TokenRequestSpec 2
 status authentication.TokenRequestStatus 3
authentication.TokenRequestStatus
 expirationTimestamp time 2
 token string 1
authentication.TokenRequestSpec
 audiences []string 1
 boundObjectRef authentication.BoundObjectReference 3
 expirationSeconds int 4
authentication.BoundObjectReference
 apiVersion string 2
 kind string 1
 name string 3
 uid string 0
authentication.TokenReview
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec authentication.TokenReviewSpec 2
 status authentication.TokenReviewStatus 3
authentication.TokenReviewStatus
 audiences []string 4
 authenticated bool 1
 error string 3
 user authentication.UserInfo 2
authentication.UserInfo
 extra {}[]string 4
 groups []string 3
 uid string 2
 username string 1
authentication.TokenReviewSpec
 audiences []string 2
 token string 1
authorization.SelfSubjectAccessReview
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec authorization.SelfSubjectAccessReviewSpec 2
 status authorization.SubjectAccessReviewStatus 3
authorization.SubjectAccessReviewStatus
 allowed bool 1
 denied bool 4
 evaluationError string 3
 reason string 2
authorization.SelfSubjectAccessReviewSpec
 nonResourceAttributes authorization.NonResourceAttributes 2
 resourceAttributes authorization.ResourceAttributes 1
authorization.ResourceAttributes
 fieldSelector authorization.FieldSelectorAttributes 8
 group string 3
 labelSelector authorization.LabelSelectorAttributes 9
 name string 7
 namespace string 1
 resource string 5
 subresource string 6
 verb string 2
 version string 4
authorization.LabelSelectorAttributes
 rawSelector string 1
 requirements []meta.LabelSelectorRequirement 2
authorization.FieldSelectorAttributes
 rawSelector string 1
 requirements []meta.FieldSelectorRequirement 2
meta.FieldSelectorRequirement
 key string 1
 operator string 2
 values []string 3
authorization.NonResourceAttributes
 path string 1
 verb string 2
authorization.SubjectAccessReview
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec authorization.SubjectAccessReviewSpec 2
 status authorization.SubjectAccessReviewStatus 3
authorization.SubjectAccessReviewSpec
 extra {}[]string 5
 groups []string 4
 nonResourceAttributes authorization.NonResourceAttributes 2
 resourceAttributes authorization.ResourceAttributes 1
 uid string 6
 user string 3
autoscaling.Scale
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec autoscaling.ScaleSpec 2
 status autoscaling.ScaleStatus 3
autoscaling.ScaleStatus
 replicas int 1
 selector string 2
autoscaling.ScaleSpec
 replicas int 1
batch.Job
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec batch.JobSpec 2
 status batch.JobStatus 3
batch.JobStatus
 active int 4
 completedIndexes string 7
 completionTime time 3
 conditions []batch.JobCondition 1 merge=type
 failed int 6
 failedIndexes string 10
 ready int 9
 startTime time 2
 succeeded int 5
 terminating int 11
 uncountedTerminatedPods batch.UncountedTerminatedPods 8
batch.UncountedTerminatedPods
 failed []string 2
 succeeded []string 1
batch.JobCondition
 lastProbeTime time 3
 lastTransitionTime time 4
 message string 6
 reason string 5
 status string 2
 type string 1
batch.JobSpec
 activeDeadlineSeconds int 3
 backoffLimit int 7
 backoffLimitPerIndex int 12
 completionMode string 9
 completions int 2
 managedBy string 15
 manualSelector bool 5
 maxFailedIndexes int 13
 parallelism int 1
 podFailurePolicy batch.PodFailurePolicy 11
 podReplacementPolicy string 14
 selector meta.LabelSelector 4
 successPolicy batch.SuccessPolicy 16
 suspend bool 10
 template core.PodTemplateSpec 6
 ttlSecondsAfterFinished int 8
batch.SuccessPolicy
 rules []batch.SuccessPolicyRule 1
batch.SuccessPolicyRule
 succeededCount int 2
 succeededIndexes string 1
batch.PodFailurePolicy
 rules []batch.PodFailurePolicyRule 1
batch.PodFailurePolicyRule
 action string 1
 onExitCodes batch.PodFailurePolicyOnExitCodesRequirement 2
 onPodConditions []batch.PodFailurePolicyOnPodConditionsPattern 3
batch.PodFailurePolicyOnPodConditionsPattern
 status string 2
 type string 1
batch.PodFailurePolicyOnExitCodesRequirement
 containerName string 1
 operator string 2
 values []int 3
coordination.Lease
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec coordination.LeaseSpec 2
coordination.LeaseSpec
 acquireTime microtime 3
 holderIdentity string 1
 leaseDurationSeconds int 2
 leaseTransitions int 5
 preferredHolder string 7
 renewTime microtime 4
 strategy string 6
core.Binding
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 target core.ObjectReference 2
core.ObjectReference
 apiVersion string 5
 fieldPath string 7
 kind string 1
 name string 3
 namespace string 2
 resourceVersion string 6
 uid string 4
core.ConfigMap
 apiVersion string 0
 binaryData {}bytes 3
 data {}string 2
 immutable bool 4
 kind string 0
 metadata meta.ObjectMeta 1
core.Endpoints
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 subsets []core.EndpointSubset 2
core.EndpointSubset
 addresses []core.EndpointAddress 1
 notReadyAddresses []core.EndpointAddress 2
 ports []core.EndpointPort 3
core.EndpointPort
 appProtocol string 4
 name string 1
 port int 2
 protocol string 3
core.EndpointAddress
 hostname string 3
 ip string 1
 nodeName string 4
 targetRef core.ObjectReference 2
core.Event
 action string 12
 apiVersion string 0
 count int 8
 eventTime microtime 10
 firstTimestamp time 6
 involvedObject core.ObjectReference 2
 kind string 0
 lastTimestamp time 7
 message string 4
 metadata meta.ObjectMeta 1
 reason string 3
 related core.ObjectReference 13
 reportingComponent string 14
 reportingInstance string 15
 series core.EventSeries 11
 source core.EventSource 5
 type string 9
core.EventSource
 component string 1
 host string 2
core.EventSeries
 count int 1
 lastObservedTime microtime 2
core.LimitRange
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.LimitRangeSpec 2
core.LimitRangeSpec
 limits []core.LimitRangeItem 1
core.LimitRangeItem
 default {}quantity 4
 defaultRequest {}quantity 5
 max {}quantity 2
 maxLimitRequestRatio {}quantity 6
 min {}quantity 3
 type string 1
core.Namespace
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.NamespaceSpec 2
 status core.NamespaceStatus 3
core.NamespaceStatus
 conditions []core.NamespaceCondition 2 merge=type
 phase string 1
core.NamespaceCondition
 lastTransitionTime time 4
 message string 6
 reason string 5
 status string 2
 type string 1
core.NamespaceSpec
 finalizers []string 1
core.Node
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.NodeSpec 2
 status core.NodeStatus 3
core.NodeStatus
 addresses []core.NodeAddress 5 merge=type
 allocatable {}quantity 2
 capacity {}quantity 1
 conditions []core.NodeCondition 4 merge=type
 config core.NodeConfigStatus 11
 daemonEndpoints core.NodeDaemonEndpoints 6
 declaredFeatures []string 14
 features core.NodeFeatures 13
 images []core.ContainerImage 8
 nodeInfo core.NodeSystemInfo 7
 phase string 3
 runtimeHandlers []core.NodeRuntimeHandler 12
 volumesAttached []core.AttachedVolume 10
 volumesInUse []string 9
core.AttachedVolume
 devicePath string 2
 name string 1
core.NodeRuntimeHandler
 features core.NodeRuntimeHandlerFeatures 2
 name string 1
core.NodeRuntimeHandlerFeatures
 recursiveReadOnlyMounts bool 1
 userNamespaces bool 2
core.NodeSystemInfo
 architecture string 10
 bootID string 3
 containerRuntimeVersion string 6
 kernelVersion string 4
 kubeProxyVersion string 8
 kubeletVersion string 7
 machineID string 1
 operatingSystem string 9
 osImage string 5
 swap core.NodeSwapStatus 11
 systemUUID string 2
core.NodeSwapStatus
 capacity int 1
core.ContainerImage
 names []string 1
 sizeBytes int 2
core.NodeFeatures
 supplementalGroupsPolicy bool 1
core.NodeDaemonEndpoints
 kubeletEndpoint core.DaemonEndpoint 1
core.DaemonEndpoint
 Port int 1
core.NodeConfigStatus
 active core.NodeConfigSource 2
 assigned core.NodeConfigSource 1
 error string 4
 lastKnownGood core.NodeConfigSource 3
core.NodeConfigSource
 configMap core.ConfigMapNodeConfigSource 2
core.ConfigMapNodeConfigSource
 kubeletConfigKey string 5
 name string 2
 namespace string 1
 resourceVersion string 4
 uid string 3
core.NodeCondition
 lastHeartbeatTime time 3
 lastTransitionTime time 4
 message string 6
 reason string 5
 status string 2
 type string 1
core.NodeAddress
 address string 2
 type string 1
core.NodeSpec
 configSource core.NodeConfigSource 6
 externalID string 2
 podCIDR string 1
 podCIDRs []string 7 merge
 providerID string 3
 taints []core.Taint 5
 unschedulable bool 4
core.Taint
 effect string 3
 key string 1
 timeAdded time 4
 value string 2
core.PersistentVolume
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.PersistentVolumeSpec 2
 status core.PersistentVolumeStatus 3
core.PersistentVolumeStatus
 lastPhaseTransitionTime time 4
 message string 2
 phase string 1
 reason string 3
core.PersistentVolumeSpec
 accessModes []string 3
 awsElasticBlockStore core.AWSElasticBlockStoreVolumeSource 2.2
 azureDisk any 2.16
 azureFile any 2.13
 capacity {}quantity 1
 cephfs any 2.9
 cinder any 2.8
 claimRef core.ObjectReference 4
 csi core.CSIPersistentVolumeSource 2.22
 fc core.FCVolumeSource 2.10
 flexVolume any 2.12
 flocker any 2.11
 gcePersistentDisk core.GCEPersistentDiskVolumeSource 2.1
 glusterfs any 2.4
 hostPath core.HostPathVolumeSource 2.3
 iscsi core.ISCSIPersistentVolumeSource 2.7
 local core.LocalVolumeSource 2.20
 mountOptions []string 7
 nfs core.NFSVolumeSource 2.5
 nodeAffinity core.VolumeNodeAffinity 9
 persistentVolumeReclaimPolicy string 5
 photonPersistentDisk any 2.17
 portworxVolume any 2.18
 quobyte any 2.15
 rbd core.RBDPersistentVolumeSource 2.6
 scaleIO any 2.19
 storageClassName string 6
 storageos any 2.21
 volumeAttributesClassName string 10
 volumeMode string 8
 vsphereVolume any 2.14
core.RBDPersistentVolumeSource
 fsType string 3
 image string 2
 keyring string 6
 monitors []string 1
 pool string 4
 readOnly bool 8
 secretRef core.SecretReference 7
 user string 5
core.SecretReference
 name string 1
 namespace string 2
core.VolumeNodeAffinity
 required core.NodeSelector 1
core.LocalVolumeSource
 fsType string 2
 path string 1
core.ISCSIPersistentVolumeSource
 chapAuthDiscovery bool 8
 chapAuthSession bool 11
 fsType string 5
 initiatorName string 12
 iqn string 2
 iscsiInterface string 4
 lun int 3
 portals []string 7
 readOnly bool 6
 secretRef core.SecretReference 10
 targetPortal string 1
core.CSIPersistentVolumeSource
 controllerExpandSecretRef core.SecretReference 9
 controllerPublishSecretRef core.SecretReference 6
 driver string 1
 fsType string 4
 nodeExpandSecretRef core.SecretReference 10
 nodePublishSecretRef core.SecretReference 8
 nodeStageSecretRef core.SecretReference 7
 readOnly bool 3
 volumeAttributes {}string 5
 volumeHandle string 2
core.PersistentVolumeClaim
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.PersistentVolumeClaimSpec 2
 status core.PersistentVolumeClaimStatus 3
core.PersistentVolumeClaimStatus
 accessModes []string 2
 allocatedResourceStatuses {}string 7
 allocatedResources {}quantity 5
 capacity {}quantity 3
 conditions []core.PersistentVolumeClaimCondition 4 merge=type
 currentVolumeAttributesClassName string 8
 modifyVolumeStatus core.ModifyVolumeStatus 9
 phase string 1
core.ModifyVolumeStatus
 status string 2
 targetVolumeAttributesClassName string 1
core.PersistentVolumeClaimCondition
 lastProbeTime time 3
 lastTransitionTime time 4
 message string 6
 reason string 5
 status string 2
 type string 1
core.Pod
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.PodSpec 2
 status core.PodStatus 3
core.PodStatus
 allocatedResources {}quantity 19
 conditions []core.PodCondition 2 merge=type
 containerStatuses []core.ContainerStatus 8
 ephemeralContainerStatuses []core.ContainerStatus 13
 extendedResourceClaimStatus core.PodExtendedResourceClaimStatus 18
 hostIP string 5
 hostIPs []core.HostIP 16 merge=ip
 initContainerStatuses []core.ContainerStatus 10
 message string 3
 nodeAllocatableResourceClaimStatuses []core.NodeAllocatableResourceClaimStatus 21
 nominatedNodeName string 11
 observedGeneration int 17
 phase string 1
 podIP string 6
 podIPs []core.PodIP 12 merge=ip
 qosClass string 9
 reason string 4
 resize string 14
 resourceClaimStatuses []core.PodResourceClaimStatus 15 merge=name retain
 resources core.ResourceRequirements 20
 startTime time 7
core.PodResourceClaimStatus
 name string 1
 resourceClaimName string 2
core.PodIP
 ip string 1
core.NodeAllocatableResourceClaimStatus
 containers []string 2
 resourceClaimName string 1
 resources {}quantity 3
core.HostIP
 ip string 1
core.PodExtendedResourceClaimStatus
 requestMappings []core.ContainerExtendedResourceRequest 1
 resourceClaimName string 2
core.ContainerExtendedResourceRequest
 containerName string 1
 requestName string 3
 resourceName string 2
core.ContainerStatus
 allocatedResources {}quantity 10
 allocatedResourcesStatus []core.ResourceStatus 14 merge=name
 containerID string 8
 image string 6
 imageID string 7
 lastState core.ContainerState 3
 name string 1
 ready bool 4
 resources core.ResourceRequirements 11
 restartCount int 5
 started bool 9
 state core.ContainerState 2
 stopSignal string 15
 user core.ContainerUser 13
 volumeMounts []core.VolumeMountStatus 12 merge=mountPath
core.VolumeMountStatus
 mountPath string 2
 name string 1
 readOnly bool 3
 recursiveReadOnly string 4
 volumeStatus core.VolumeStatus 5
core.VolumeStatus
 image core.ImageVolumeStatus 1
core.ImageVolumeStatus
 imageRef string 1
core.ContainerUser
 linux core.LinuxContainerUser 1
core.LinuxContainerUser
 gid int 2
 supplementalGroups []int 3
 uid int 1
core.ContainerState
 running core.ContainerStateRunning 2
 terminated core.ContainerStateTerminated 3
 waiting core.ContainerStateWaiting 1
core.ContainerStateWaiting
 message string 2
 reason string 1
core.ContainerStateTerminated
 containerID string 7
 exitCode int 1
 finishedAt time 6
 message string 4
 reason string 3
 signal int 2
 startedAt time 5
core.ContainerStateRunning
 startedAt time 1
core.ResourceStatus
 name string 1
 resources []core.ResourceHealth 2 keys=resourceID
core.ResourceHealth
 health string 2
 message string 6
 resourceID string 1
core.PodCondition
 lastProbeTime time 3
 lastTransitionTime time 4
 message string 6
 observedGeneration int 7
 reason string 5
 status string 2
 type string 1
core.ReplicationController
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.ReplicationControllerSpec 2
 status core.ReplicationControllerStatus 3
core.ReplicationControllerStatus
 availableReplicas int 5
 conditions []core.ReplicationControllerCondition 6 merge=type
 fullyLabeledReplicas int 2
 observedGeneration int 3
 readyReplicas int 4
 replicas int 1
core.ReplicationControllerCondition
 lastTransitionTime time 3
 message string 5
 reason string 4
 status string 2
 type string 1
core.ReplicationControllerSpec
 minReadySeconds int 4
 replicas int 1
 selector {}string 2 atomic
 template core.PodTemplateSpec 3
core.ResourceQuota
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.ResourceQuotaSpec 2
 status core.ResourceQuotaStatus 3
core.ResourceQuotaStatus
 hard {}quantity 1
 used {}quantity 2
core.ResourceQuotaSpec
 hard {}quantity 1
 scopeSelector core.ScopeSelector 3
 scopes []string 2
core.ScopeSelector
 matchExpressions []core.ScopedResourceSelectorRequirement 1
core.ScopedResourceSelectorRequirement
 operator string 2
 scopeName string 1
 values []string 3
core.Secret
 apiVersion string 0
 data {}bytes 2
 immutable bool 5
 kind string 0
 metadata meta.ObjectMeta 1
 stringData {}string 4
 type string 3
core.Service
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec core.ServiceSpec 2
 status core.ServiceStatus 3
core.ServiceStatus
 conditions []meta.Condition 2 merge=type
 loadBalancer core.LoadBalancerStatus 1
core.LoadBalancerStatus
 ingress []core.LoadBalancerIngress 1
core.LoadBalancerIngress
 hostname string 2
 ip string 1
 ipMode string 3
 ports []core.PortStatus 4
core.PortStatus
 error string 3
 port int 1
 protocol string 2
meta.Condition
 lastTransitionTime time 4
 message string 6
 observedGeneration int 3
 reason string 5
 status string 2
 type string 1
core.ServiceSpec
 allocateLoadBalancerNodePorts bool 20
 clusterIP string 3
 clusterIPs []string 18
 externalIPs []string 5
 externalName string 10
 externalTrafficPolicy string 11
 healthCheckNodePort int 12
 internalTrafficPolicy string 22
 ipFamilies []string 19
 ipFamilyPolicy string 17
 loadBalancerClass string 21
 loadBalancerIP string 8
 loadBalancerSourceRanges []string 9
 ports []core.ServicePort 1 merge=port,protocol
 publishNotReadyAddresses bool 13
 selector {}string 2 atomic
 sessionAffinity string 7
 sessionAffinityConfig core.SessionAffinityConfig 14
 trafficDistribution string 23
 type string 4
core.SessionAffinityConfig
 clientIP core.ClientIPConfig 1
core.ClientIPConfig
 timeoutSeconds int 1
core.ServicePort
 appProtocol string 6
 name string 1
 nodePort int 5
 port int 3
 protocol string 2
 targetPort intstr 4
core.ServiceAccount
 apiVersion string 0
 automountServiceAccountToken bool 4
 imagePullSecrets []core.LocalObjectReference 3
 kind string 0
 metadata meta.ObjectMeta 1
 secrets []core.ObjectReference 2 merge=name
discovery.EndpointSlice
 addressType string 4
 apiVersion string 0
 endpoints []discovery.Endpoint 2
 kind string 0
 metadata meta.ObjectMeta 1
 ports []discovery.EndpointPort 3
discovery.EndpointPort
 appProtocol string 4
 name string 1
 port int 3
 protocol string 2
discovery.Endpoint
 addresses []string 1
 conditions discovery.EndpointConditions 2
 deprecatedTopology {}string 5
 hints discovery.EndpointHints 8
 hostname string 3
 nodeName string 6
 targetRef core.ObjectReference 4
 zone string 7
discovery.EndpointHints
 forNodes []discovery.ForNode 2
 forZones []discovery.ForZone 1
discovery.ForZone
 name string 1
discovery.ForNode
 name string 1
discovery.EndpointConditions
 ready bool 1
 serving bool 2
 terminating bool 3
events.Event
 action string 6
 apiVersion string 0
 deprecatedCount int 15
 deprecatedFirstTimestamp time 13
 deprecatedLastTimestamp time 14
 deprecatedSource core.EventSource 12
 eventTime microtime 2
 kind string 0
 metadata meta.ObjectMeta 1
 note string 10
 reason string 7
 regarding core.ObjectReference 8
 related core.ObjectReference 9
 reportingController string 4
 reportingInstance string 5
 series events.EventSeries 3
 type string 11
events.EventSeries
 count int 1
 lastObservedTime microtime 2
meta.DeleteOptions
 apiVersion string 0
 dryRun []string 5
 gracePeriodSeconds int 1
 ignoreStoreReadErrorWithClusterBreakingPotential bool 6
 kind string 0
 orphanDependents bool 3
 preconditions meta.Preconditions 2
 propagationPolicy string 4
meta.Preconditions
 resourceVersion string 2
 uid string 1
policy.Eviction
 apiVersion string 0
 deleteOptions meta.DeleteOptions 2
 kind string 0
 metadata meta.ObjectMeta 1
policy.PodDisruptionBudget
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec policy.PodDisruptionBudgetSpec 2
 status policy.PodDisruptionBudgetStatus 3
policy.PodDisruptionBudgetStatus
 conditions []meta.Condition 7 merge=type
 currentHealthy int 4
 desiredHealthy int 5
 disruptedPods {}time 2
 disruptionsAllowed int 3
 expectedPods int 6
 observedGeneration int 1
policy.PodDisruptionBudgetSpec
 maxUnavailable intstr 3
 minAvailable intstr 1
 selector meta.LabelSelector 2
 unhealthyPodEvictionPolicy string 4
rbac.ClusterRole
 aggregationRule rbac.AggregationRule 3
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 rules []rbac.PolicyRule 2
rbac.PolicyRule
 apiGroups []string 2
 nonResourceURLs []string 5
 resourceNames []string 4
 resources []string 3
 verbs []string 1
rbac.AggregationRule
 clusterRoleSelectors []meta.LabelSelector 1
rbac.ClusterRoleBinding
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 roleRef rbac.RoleRef 3
 subjects []rbac.Subject 2
rbac.Subject
 apiGroup string 2
 kind string 1
 name string 3
 namespace string 4
rbac.RoleRef
 apiGroup string 1
 kind string 2
 name string 3
rbac.Role
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 rules []rbac.PolicyRule 2
rbac.RoleBinding
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 roleRef rbac.RoleRef 3
 subjects []rbac.Subject 2
resource.DeviceClass
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec resource.DeviceClassSpec 2
resource.DeviceClassSpec
 config []resource.DeviceClassConfiguration 2
 extendedResourceName string 4
 selectors []resource.DeviceSelector 1
resource.DeviceSelector
 cel resource.CELDeviceSelector 1
resource.CELDeviceSelector
 expression string 1
resource.DeviceClassConfiguration
 opaque resource.OpaqueDeviceConfiguration 1.1
resource.OpaqueDeviceConfiguration
 driver string 1
 parameters any 2
resource.ResourceClaim
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec resource.ResourceClaimSpec 2
 status resource.ResourceClaimStatus 3
resource.ResourceClaimStatus
 allocation resource.AllocationResult 1
 devices []resource.AllocatedDeviceStatus 4 keys=driver,device,pool,shareID
 reservedFor []resource.ResourceClaimConsumerReference 2 merge=uid
resource.ResourceClaimConsumerReference
 apiGroup string 1
 name string 4
 resource string 3
 uid string 5
resource.AllocatedDeviceStatus
 conditions []meta.Condition 4 keys=type
 data any 5
 device string 3
 driver string 1
 networkData resource.NetworkDeviceData 6
 pool string 2
 shareID string 7
resource.NetworkDeviceData
 hardwareAddress string 3
 interfaceName string 1
 ips []string 2
resource.AllocationResult
 allocationTimestamp time 5
 devices resource.DeviceAllocationResult 1
 nodeSelector core.NodeSelector 3
resource.DeviceAllocationResult
 config []resource.DeviceAllocationConfiguration 2
 results []resource.DeviceRequestAllocationResult 1
resource.DeviceRequestAllocationResult
 adminAccess bool 5
 bindingConditions []string 7
 bindingFailureConditions []string 8
 consumedCapacity {}quantity 10
 device string 4
 driver string 2
 pool string 3
 request string 1
 shareID string 9
 tolerations []resource.DeviceToleration 6
resource.DeviceToleration
 effect string 4
 key string 1
 operator string 2
 tolerationSeconds int 5
 value string 3
resource.DeviceAllocationConfiguration
 opaque resource.OpaqueDeviceConfiguration 3.1
 requests []string 2
 source string 1
resource.ResourceClaimSpec
 devices resource.DeviceClaim 1
resource.DeviceClaim
 config []resource.DeviceClaimConfiguration 3
 constraints []resource.DeviceConstraint 2
 requests []resource.DeviceRequest 1
resource.DeviceRequest
 exactly resource.ExactDeviceRequest 2
 firstAvailable []resource.DeviceSubRequest 3
 name string 1
resource.DeviceSubRequest
 allocationMode string 4
 capacity resource.CapacityRequirements 7
 count int 5
 deviceClassName string 2
 name string 1
 selectors []resource.DeviceSelector 3
 tolerations []resource.DeviceToleration 6
resource.CapacityRequirements
 requests {}quantity 1
resource.ExactDeviceRequest
 adminAccess bool 5
 allocationMode string 3
 capacity resource.CapacityRequirements 7
 count int 4
 deviceClassName string 1
 selectors []resource.DeviceSelector 2
 tolerations []resource.DeviceToleration 6
resource.DeviceConstraint
 distinctAttribute string 3
 matchAttribute string 2
 requests []string 1
resource.DeviceClaimConfiguration
 opaque resource.OpaqueDeviceConfiguration 2.1
 requests []string 1
resource.ResourceClaimTemplate
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec resource.ResourceClaimTemplateSpec 2
resource.ResourceClaimTemplateSpec
 metadata meta.ObjectMeta 1
 spec resource.ResourceClaimSpec 2
resource.ResourceSlice
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec resource.ResourceSliceSpec 2
resource.ResourceSliceSpec
 allNodes bool 5
 devices []resource.Device 6
 driver string 1
 nodeName string 3
 nodeSelector core.NodeSelector 4
 perDeviceNodeSelection bool 7
 pool resource.ResourcePool 2
 sharedCounters []resource.CounterSet 8
resource.CounterSet
 counters {}resource.Counter 2
 name string 1
resource.Counter
 value quantity 1
resource.ResourcePool
 generation int 2
 name string 1
 resourceSliceCount int 3
resource.Device
 allNodes bool 7
 allowMultipleAllocations bool 12
 attributes {}resource.DeviceAttribute 2
 bindingConditions []string 10
 bindingFailureConditions []string 11
 bindsToNode bool 9
 capacity {}resource.DeviceCapacity 3
 consumesCounters []resource.DeviceCounterConsumption 4
 name string 1
 nodeAllocatableResourceMappings {}resource.NodeAllocatableResourceMapping 13
 nodeName string 5
 nodeSelector core.NodeSelector 6
 taints []resource.DeviceTaint 8
resource.DeviceTaint
 effect string 3
 key string 1
 timeAdded time 4
 value string 2
resource.NodeAllocatableResourceMapping
 allocationMultiplier quantity 2
 capacityKey string 1
resource.DeviceCounterConsumption
 counterSet string 1
 counters {}resource.Counter 2
resource.DeviceCapacity
 requestPolicy resource.CapacityRequestPolicy 2
 value quantity 1
resource.CapacityRequestPolicy
 default quantity 1
 validRange resource.CapacityRequestPolicyRange 4
 validValues []quantity 3
resource.CapacityRequestPolicyRange
 max quantity 2
 min quantity 1
 step quantity 3
resource.DeviceAttribute
 bool bool 3
 bools []bool 7
 int int 2
 ints []int 6
 string string 4
 strings []string 8
 version string 5
 versions []string 9
scheduling.PriorityClass
 apiVersion string 0
 description string 4
 globalDefault bool 3
 kind string 0
 metadata meta.ObjectMeta 1
 preemptionPolicy string 5
 value int 2
storage.CSIDriver
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec storage.CSIDriverSpec 2
storage.CSIDriverSpec
 attachRequired bool 1
 fsGroupPolicy string 5
 nodeAllocatableUpdatePeriodSeconds int 9
 podInfoOnMount bool 2
 preventPodSchedulingIfMissing bool 11
 requiresRepublish bool 7
 seLinuxMount bool 8
 serviceAccountTokenInSecrets bool 10
 storageCapacity bool 4
 tokenRequests []storage.TokenRequest 6
 volumeLifecycleModes []string 3
storage.TokenRequest
 audience string 1
 expirationSeconds int 2
storage.CSINode
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec storage.CSINodeSpec 2
storage.CSINodeSpec
 drivers []storage.CSINodeDriver 1 merge=name
storage.CSINodeDriver
 allocatable storage.VolumeNodeResources 4
 name string 1
 nodeID string 2
 topologyKeys []string 3
storage.VolumeNodeResources
 count int 1
storage.CSIStorageCapacity
 apiVersion string 0
 capacity quantity 4
 kind string 0
 maximumVolumeSize quantity 5
 metadata meta.ObjectMeta 1
 nodeTopology meta.LabelSelector 2
 storageClassName string 3
storage.StorageClass
 allowVolumeExpansion bool 6
 allowedTopologies []core.TopologySelectorTerm 8
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 mountOptions []string 5
 parameters {}string 3
 provisioner string 2
 reclaimPolicy string 4
 volumeBindingMode string 7
core.TopologySelectorTerm
 matchLabelExpressions []core.TopologySelectorLabelRequirement 1
core.TopologySelectorLabelRequirement
 key string 1
 values []string 2
storage.VolumeAttachment
 apiVersion string 0
 kind string 0
 metadata meta.ObjectMeta 1
 spec storage.VolumeAttachmentSpec 2
 status storage.VolumeAttachmentStatus 3
storage.VolumeAttachmentStatus
 attachError storage.VolumeError 3
 attached bool 1
 attachmentMetadata {}string 2
 detachError storage.VolumeError 4
storage.VolumeError
 errorCode int 3
 message string 2
 time time 1
storage.VolumeAttachmentSpec
 attacher string 1
 nodeName string 3
 source storage.VolumeAttachmentSource 2
storage.VolumeAttachmentSource
 inlineVolumeSpec core.PersistentVolumeSpec 2
 persistentVolumeName string 1
"""
