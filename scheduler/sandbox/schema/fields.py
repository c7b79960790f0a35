"""Field names and types of the kinds the sandbox serves. Generated: see regenerate.py.

A type is a line with its name, its fields follow indented: name, type, then how lists merge
(`merge=KEY` strategic merge key, `merge` a set of primitives, `retain` the retainKeys strategy,
`keys=A,B` server-side apply keys where they differ, `atomic` a map replaced as a whole).
Source: Kubernetes v1.36.3 api/openapi-spec/swagger.json.
"""

from typing import Final

FIELDS: Final = """
apps.v1.DaemonSet
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec apps.v1.DaemonSetSpec
 status apps.v1.DaemonSetStatus
apps.v1.DaemonSetStatus
 collisionCount int
 conditions []apps.v1.DaemonSetCondition merge=type
 currentNumberScheduled int
 desiredNumberScheduled int
 numberAvailable int
 numberMisscheduled int
 numberReady int
 numberUnavailable int
 observedGeneration int
 updatedNumberScheduled int
apps.v1.DaemonSetCondition
 lastTransitionTime time
 message string
 reason string
 status string
 type string
apps.v1.DaemonSetSpec
 minReadySeconds int
 revisionHistoryLimit int
 selector meta.v1.LabelSelector
 template core.v1.PodTemplateSpec
 updateStrategy apps.v1.DaemonSetUpdateStrategy
apps.v1.DaemonSetUpdateStrategy
 rollingUpdate apps.v1.RollingUpdateDaemonSet
 type string
apps.v1.RollingUpdateDaemonSet
 maxSurge intstr
 maxUnavailable intstr
core.v1.PodTemplateSpec
 metadata meta.v1.ObjectMeta
 spec core.v1.PodSpec
core.v1.PodSpec
 activeDeadlineSeconds int
 affinity core.v1.Affinity
 automountServiceAccountToken bool
 containers []core.v1.Container merge=name
 dnsConfig core.v1.PodDNSConfig
 dnsPolicy string
 enableServiceLinks bool
 ephemeralContainers []core.v1.EphemeralContainer merge=name
 hostAliases []core.v1.HostAlias merge=ip
 hostIPC bool
 hostNetwork bool
 hostPID bool
 hostUsers bool
 hostname string
 hostnameOverride string
 imagePullSecrets []core.v1.LocalObjectReference merge=name
 initContainers []core.v1.Container merge=name
 nodeName string
 nodeSelector {}string atomic
 os core.v1.PodOS
 overhead {}quantity
 preemptionPolicy string
 priority int
 priorityClassName string
 readinessGates []core.v1.PodReadinessGate
 resourceClaims []core.v1.PodResourceClaim merge=name retain
 resources core.v1.ResourceRequirements
 restartPolicy string
 runtimeClassName string
 schedulerName string
 schedulingGates []core.v1.PodSchedulingGate merge=name
 schedulingGroup core.v1.PodSchedulingGroup
 securityContext core.v1.PodSecurityContext
 serviceAccount string
 serviceAccountName string
 setHostnameAsFQDN bool
 shareProcessNamespace bool
 subdomain string
 terminationGracePeriodSeconds int
 tolerations []core.v1.Toleration
 topologySpreadConstraints []core.v1.TopologySpreadConstraint merge=topologyKey keys=topologyKey,whenUnsatisfiable
 volumes []core.v1.Volume merge=name retain
core.v1.Volume
 awsElasticBlockStore core.v1.AWSElasticBlockStoreVolumeSource
 azureDisk any
 azureFile any
 cephfs any
 cinder any
 configMap core.v1.ConfigMapVolumeSource
 csi core.v1.CSIVolumeSource
 downwardAPI core.v1.DownwardAPIVolumeSource
 emptyDir core.v1.EmptyDirVolumeSource
 ephemeral core.v1.EphemeralVolumeSource
 fc core.v1.FCVolumeSource
 flexVolume any
 flocker any
 gcePersistentDisk core.v1.GCEPersistentDiskVolumeSource
 gitRepo core.v1.GitRepoVolumeSource
 glusterfs any
 hostPath core.v1.HostPathVolumeSource
 image core.v1.ImageVolumeSource
 iscsi core.v1.ISCSIVolumeSource
 name string
 nfs core.v1.NFSVolumeSource
 persistentVolumeClaim core.v1.PersistentVolumeClaimVolumeSource
 photonPersistentDisk any
 portworxVolume any
 projected core.v1.ProjectedVolumeSource
 quobyte any
 rbd core.v1.RBDVolumeSource
 scaleIO any
 secret core.v1.SecretVolumeSource
 storageos any
 vsphereVolume any
core.v1.SecretVolumeSource
 defaultMode int
 items []core.v1.KeyToPath
 optional bool
 secretName string
core.v1.KeyToPath
 key string
 mode int
 path string
core.v1.RBDVolumeSource
 fsType string
 image string
 keyring string
 monitors []string
 pool string
 readOnly bool
 secretRef core.v1.LocalObjectReference
 user string
core.v1.ProjectedVolumeSource
 defaultMode int
 sources []core.v1.VolumeProjection
core.v1.VolumeProjection
 clusterTrustBundle core.v1.ClusterTrustBundleProjection
 configMap core.v1.ConfigMapProjection
 downwardAPI core.v1.DownwardAPIProjection
 podCertificate core.v1.PodCertificateProjection
 secret core.v1.SecretProjection
 serviceAccountToken core.v1.ServiceAccountTokenProjection
core.v1.ServiceAccountTokenProjection
 audience string
 expirationSeconds int
 path string
core.v1.SecretProjection
 items []core.v1.KeyToPath
 name string
 optional bool
core.v1.PodCertificateProjection
 certificateChainPath string
 credentialBundlePath string
 keyPath string
 keyType string
 maxExpirationSeconds int
 signerName string
 userAnnotations {}string
core.v1.DownwardAPIProjection
 items []core.v1.DownwardAPIVolumeFile
core.v1.DownwardAPIVolumeFile
 fieldRef core.v1.ObjectFieldSelector
 mode int
 path string
 resourceFieldRef core.v1.ResourceFieldSelector
core.v1.ResourceFieldSelector
 containerName string
 divisor quantity
 resource string
core.v1.ObjectFieldSelector
 apiVersion string
 fieldPath string
core.v1.ConfigMapProjection
 items []core.v1.KeyToPath
 name string
 optional bool
core.v1.ClusterTrustBundleProjection
 labelSelector meta.v1.LabelSelector
 name string
 optional bool
 path string
 signerName string
core.v1.PersistentVolumeClaimVolumeSource
 claimName string
 readOnly bool
core.v1.NFSVolumeSource
 path string
 readOnly bool
 server string
core.v1.ISCSIVolumeSource
 chapAuthDiscovery bool
 chapAuthSession bool
 fsType string
 initiatorName string
 iqn string
 iscsiInterface string
 lun int
 portals []string
 readOnly bool
 secretRef core.v1.LocalObjectReference
 targetPortal string
core.v1.ImageVolumeSource
 pullPolicy string
 reference string
core.v1.HostPathVolumeSource
 path string
 type string
core.v1.GitRepoVolumeSource
 directory string
 repository string
 revision string
core.v1.GCEPersistentDiskVolumeSource
 fsType string
 partition int
 pdName string
 readOnly bool
core.v1.FCVolumeSource
 fsType string
 lun int
 readOnly bool
 targetWWNs []string
 wwids []string
core.v1.EphemeralVolumeSource
 volumeClaimTemplate core.v1.PersistentVolumeClaimTemplate
core.v1.PersistentVolumeClaimTemplate
 metadata meta.v1.ObjectMeta
 spec core.v1.PersistentVolumeClaimSpec
core.v1.PersistentVolumeClaimSpec
 accessModes []string
 dataSource core.v1.TypedLocalObjectReference
 dataSourceRef core.v1.TypedObjectReference
 resources core.v1.VolumeResourceRequirements
 selector meta.v1.LabelSelector
 storageClassName string
 volumeAttributesClassName string
 volumeMode string
 volumeName string
core.v1.VolumeResourceRequirements
 limits {}quantity
 requests {}quantity
core.v1.TypedObjectReference
 apiGroup string
 kind string
 name string
 namespace string
core.v1.TypedLocalObjectReference
 apiGroup string
 kind string
 name string
core.v1.EmptyDirVolumeSource
 medium string
 sizeLimit quantity
core.v1.DownwardAPIVolumeSource
 defaultMode int
 items []core.v1.DownwardAPIVolumeFile
core.v1.CSIVolumeSource
 driver string
 fsType string
 nodePublishSecretRef core.v1.LocalObjectReference
 readOnly bool
 volumeAttributes {}string
core.v1.ConfigMapVolumeSource
 defaultMode int
 items []core.v1.KeyToPath
 name string
 optional bool
core.v1.AWSElasticBlockStoreVolumeSource
 fsType string
 partition int
 readOnly bool
 volumeID string
core.v1.TopologySpreadConstraint
 labelSelector meta.v1.LabelSelector
 matchLabelKeys []string
 maxSkew int
 minDomains int
 nodeAffinityPolicy string
 nodeTaintsPolicy string
 topologyKey string
 whenUnsatisfiable string
core.v1.Toleration
 effect string
 key string
 operator string
 tolerationSeconds int
 value string
core.v1.PodSecurityContext
 appArmorProfile core.v1.AppArmorProfile
 fsGroup int
 fsGroupChangePolicy string
 runAsGroup int
 runAsNonRoot bool
 runAsUser int
 seLinuxChangePolicy string
 seLinuxOptions core.v1.SELinuxOptions
 seccompProfile core.v1.SeccompProfile
 supplementalGroups []int
 supplementalGroupsPolicy string
 sysctls []core.v1.Sysctl
 windowsOptions any
core.v1.Sysctl
 name string
 value string
core.v1.SeccompProfile
 localhostProfile string
 type string
core.v1.SELinuxOptions
 level string
 role string
 type string
 user string
core.v1.AppArmorProfile
 localhostProfile string
 type string
core.v1.PodSchedulingGroup
 podGroupName string
core.v1.PodSchedulingGate
 name string
core.v1.ResourceRequirements
 claims []core.v1.ResourceClaim keys=name
 limits {}quantity
 requests {}quantity
core.v1.ResourceClaim
 name string
 request string
core.v1.PodResourceClaim
 name string
 resourceClaimName string
 resourceClaimTemplateName string
core.v1.PodReadinessGate
 conditionType string
core.v1.PodOS
 name string
core.v1.LocalObjectReference
 name string
core.v1.HostAlias
 hostnames []string
 ip string
core.v1.EphemeralContainer
 args []string
 command []string
 env []core.v1.EnvVar merge=name
 envFrom []core.v1.EnvFromSource
 image string
 imagePullPolicy string
 lifecycle core.v1.Lifecycle
 livenessProbe core.v1.Probe
 name string
 ports []core.v1.ContainerPort merge=containerPort keys=containerPort,protocol
 readinessProbe core.v1.Probe
 resizePolicy []core.v1.ContainerResizePolicy
 resources core.v1.ResourceRequirements
 restartPolicy string
 restartPolicyRules []core.v1.ContainerRestartRule
 securityContext core.v1.SecurityContext
 startupProbe core.v1.Probe
 stdin bool
 stdinOnce bool
 targetContainerName string
 terminationMessagePath string
 terminationMessagePolicy string
 tty bool
 volumeDevices []core.v1.VolumeDevice merge=devicePath
 volumeMounts []core.v1.VolumeMount merge=mountPath
 workingDir string
core.v1.VolumeMount
 mountPath string
 mountPropagation string
 name string
 readOnly bool
 recursiveReadOnly string
 subPath string
 subPathExpr string
core.v1.VolumeDevice
 devicePath string
 name string
core.v1.SecurityContext
 allowPrivilegeEscalation bool
 appArmorProfile core.v1.AppArmorProfile
 capabilities core.v1.Capabilities
 privileged bool
 procMount string
 readOnlyRootFilesystem bool
 runAsGroup int
 runAsNonRoot bool
 runAsUser int
 seLinuxOptions core.v1.SELinuxOptions
 seccompProfile core.v1.SeccompProfile
 windowsOptions any
core.v1.Capabilities
 add []string
 drop []string
core.v1.ContainerRestartRule
 action string
 exitCodes core.v1.ContainerRestartRuleOnExitCodes
core.v1.ContainerRestartRuleOnExitCodes
 operator string
 values []int
core.v1.ContainerResizePolicy
 resourceName string
 restartPolicy string
core.v1.ContainerPort
 containerPort int
 hostIP string
 hostPort int
 name string
 protocol string
core.v1.Probe
 exec core.v1.ExecAction
 failureThreshold int
 grpc core.v1.GRPCAction
 httpGet core.v1.HTTPGetAction
 initialDelaySeconds int
 periodSeconds int
 successThreshold int
 tcpSocket core.v1.TCPSocketAction
 terminationGracePeriodSeconds int
 timeoutSeconds int
core.v1.TCPSocketAction
 host string
 port intstr
core.v1.HTTPGetAction
 host string
 httpHeaders []core.v1.HTTPHeader
 path string
 port intstr
 scheme string
core.v1.HTTPHeader
 name string
 value string
core.v1.GRPCAction
 port int
 service string
core.v1.ExecAction
 command []string
core.v1.Lifecycle
 postStart core.v1.LifecycleHandler
 preStop core.v1.LifecycleHandler
 stopSignal string
core.v1.LifecycleHandler
 exec core.v1.ExecAction
 httpGet core.v1.HTTPGetAction
 sleep core.v1.SleepAction
 tcpSocket core.v1.TCPSocketAction
core.v1.SleepAction
 seconds int
core.v1.EnvFromSource
 configMapRef core.v1.ConfigMapEnvSource
 prefix string
 secretRef core.v1.SecretEnvSource
core.v1.SecretEnvSource
 name string
 optional bool
core.v1.ConfigMapEnvSource
 name string
 optional bool
core.v1.EnvVar
 name string
 value string
 valueFrom core.v1.EnvVarSource
core.v1.EnvVarSource
 configMapKeyRef core.v1.ConfigMapKeySelector
 fieldRef core.v1.ObjectFieldSelector
 fileKeyRef core.v1.FileKeySelector
 resourceFieldRef core.v1.ResourceFieldSelector
 secretKeyRef core.v1.SecretKeySelector
core.v1.SecretKeySelector
 key string
 name string
 optional bool
core.v1.FileKeySelector
 key string
 optional bool
 path string
 volumeName string
core.v1.ConfigMapKeySelector
 key string
 name string
 optional bool
core.v1.PodDNSConfig
 nameservers []string
 options []core.v1.PodDNSConfigOption
 searches []string
core.v1.PodDNSConfigOption
 name string
 value string
core.v1.Container
 args []string
 command []string
 env []core.v1.EnvVar merge=name
 envFrom []core.v1.EnvFromSource
 image string
 imagePullPolicy string
 lifecycle core.v1.Lifecycle
 livenessProbe core.v1.Probe
 name string
 ports []core.v1.ContainerPort merge=containerPort keys=containerPort,protocol
 readinessProbe core.v1.Probe
 resizePolicy []core.v1.ContainerResizePolicy
 resources core.v1.ResourceRequirements
 restartPolicy string
 restartPolicyRules []core.v1.ContainerRestartRule
 securityContext core.v1.SecurityContext
 startupProbe core.v1.Probe
 stdin bool
 stdinOnce bool
 terminationMessagePath string
 terminationMessagePolicy string
 tty bool
 volumeDevices []core.v1.VolumeDevice merge=devicePath
 volumeMounts []core.v1.VolumeMount merge=mountPath
 workingDir string
core.v1.Affinity
 nodeAffinity core.v1.NodeAffinity
 podAffinity core.v1.PodAffinity
 podAntiAffinity core.v1.PodAntiAffinity
core.v1.PodAntiAffinity
 preferredDuringSchedulingIgnoredDuringExecution []core.v1.WeightedPodAffinityTerm
 requiredDuringSchedulingIgnoredDuringExecution []core.v1.PodAffinityTerm
core.v1.PodAffinityTerm
 labelSelector meta.v1.LabelSelector
 matchLabelKeys []string
 mismatchLabelKeys []string
 namespaceSelector meta.v1.LabelSelector
 namespaces []string
 topologyKey string
core.v1.WeightedPodAffinityTerm
 podAffinityTerm core.v1.PodAffinityTerm
 weight int
core.v1.PodAffinity
 preferredDuringSchedulingIgnoredDuringExecution []core.v1.WeightedPodAffinityTerm
 requiredDuringSchedulingIgnoredDuringExecution []core.v1.PodAffinityTerm
core.v1.NodeAffinity
 preferredDuringSchedulingIgnoredDuringExecution []core.v1.PreferredSchedulingTerm
 requiredDuringSchedulingIgnoredDuringExecution core.v1.NodeSelector
core.v1.NodeSelector
 nodeSelectorTerms []core.v1.NodeSelectorTerm
core.v1.NodeSelectorTerm
 matchExpressions []core.v1.NodeSelectorRequirement
 matchFields []core.v1.NodeSelectorRequirement
core.v1.NodeSelectorRequirement
 key string
 operator string
 values []string
core.v1.PreferredSchedulingTerm
 preference core.v1.NodeSelectorTerm
 weight int
meta.v1.LabelSelector
 matchExpressions []meta.v1.LabelSelectorRequirement
 matchLabels {}string
meta.v1.LabelSelectorRequirement
 key string
 operator string
 values []string
meta.v1.ObjectMeta
 annotations {}string
 creationTimestamp time
 deletionGracePeriodSeconds int
 deletionTimestamp time
 finalizers []string merge
 generateName string
 generation int
 labels {}string
 managedFields []any
 name string
 namespace string
 ownerReferences []meta.v1.OwnerReference merge=uid
 resourceVersion string
 selfLink string
 uid string
meta.v1.OwnerReference
 apiVersion string
 blockOwnerDeletion bool
 controller bool
 kind string
 name string
 uid string
apps.v1.Deployment
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec apps.v1.DeploymentSpec
 status apps.v1.DeploymentStatus
apps.v1.DeploymentStatus
 availableReplicas int
 collisionCount int
 conditions []apps.v1.DeploymentCondition merge=type
 observedGeneration int
 readyReplicas int
 replicas int
 terminatingReplicas int
 unavailableReplicas int
 updatedReplicas int
apps.v1.DeploymentCondition
 lastTransitionTime time
 lastUpdateTime time
 message string
 reason string
 status string
 type string
apps.v1.DeploymentSpec
 minReadySeconds int
 paused bool
 progressDeadlineSeconds int
 replicas int
 revisionHistoryLimit int
 selector meta.v1.LabelSelector
 strategy apps.v1.DeploymentStrategy retain
 template core.v1.PodTemplateSpec
apps.v1.DeploymentStrategy
 rollingUpdate apps.v1.RollingUpdateDeployment
 type string
apps.v1.RollingUpdateDeployment
 maxSurge intstr
 maxUnavailable intstr
apps.v1.ReplicaSet
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec apps.v1.ReplicaSetSpec
 status apps.v1.ReplicaSetStatus
apps.v1.ReplicaSetStatus
 availableReplicas int
 conditions []apps.v1.ReplicaSetCondition merge=type
 fullyLabeledReplicas int
 observedGeneration int
 readyReplicas int
 replicas int
 terminatingReplicas int
apps.v1.ReplicaSetCondition
 lastTransitionTime time
 message string
 reason string
 status string
 type string
apps.v1.ReplicaSetSpec
 minReadySeconds int
 replicas int
 selector meta.v1.LabelSelector
 template core.v1.PodTemplateSpec
apps.v1.StatefulSet
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec apps.v1.StatefulSetSpec
 status apps.v1.StatefulSetStatus
apps.v1.StatefulSetStatus
 availableReplicas int
 collisionCount int
 conditions []apps.v1.StatefulSetCondition merge=type
 currentReplicas int
 currentRevision string
 observedGeneration int
 readyReplicas int
 replicas int
 updateRevision string
 updatedReplicas int
apps.v1.StatefulSetCondition
 lastTransitionTime time
 message string
 reason string
 status string
 type string
apps.v1.StatefulSetSpec
 minReadySeconds int
 ordinals apps.v1.StatefulSetOrdinals
 persistentVolumeClaimRetentionPolicy apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy
 podManagementPolicy string
 replicas int
 revisionHistoryLimit int
 selector meta.v1.LabelSelector
 serviceName string
 template core.v1.PodTemplateSpec
 updateStrategy apps.v1.StatefulSetUpdateStrategy
 volumeClaimTemplates []core.v1.PersistentVolumeClaim
apps.v1.StatefulSetUpdateStrategy
 rollingUpdate apps.v1.RollingUpdateStatefulSetStrategy
 type string
apps.v1.RollingUpdateStatefulSetStrategy
 maxUnavailable intstr
 partition int
apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy
 whenDeleted string
 whenScaled string
apps.v1.StatefulSetOrdinals
 start int
authentication.v1.TokenRequest
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec authentication.v1.TokenRequestSpec
 status authentication.v1.TokenRequestStatus
authentication.v1.TokenRequestStatus
 expirationTimestamp time
 token string
authentication.v1.TokenRequestSpec
 audiences []string
 boundObjectRef authentication.v1.BoundObjectReference
 expirationSeconds int
authentication.v1.BoundObjectReference
 apiVersion string
 kind string
 name string
 uid string
authentication.v1.TokenReview
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec authentication.v1.TokenReviewSpec
 status authentication.v1.TokenReviewStatus
authentication.v1.TokenReviewStatus
 audiences []string
 authenticated bool
 error string
 user authentication.v1.UserInfo
authentication.v1.UserInfo
 extra {}[]string
 groups []string
 uid string
 username string
authentication.v1.TokenReviewSpec
 audiences []string
 token string
authorization.v1.SelfSubjectAccessReview
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec authorization.v1.SelfSubjectAccessReviewSpec
 status authorization.v1.SubjectAccessReviewStatus
authorization.v1.SubjectAccessReviewStatus
 allowed bool
 denied bool
 evaluationError string
 reason string
authorization.v1.SelfSubjectAccessReviewSpec
 nonResourceAttributes authorization.v1.NonResourceAttributes
 resourceAttributes authorization.v1.ResourceAttributes
authorization.v1.ResourceAttributes
 fieldSelector authorization.v1.FieldSelectorAttributes
 group string
 labelSelector authorization.v1.LabelSelectorAttributes
 name string
 namespace string
 resource string
 subresource string
 verb string
 version string
authorization.v1.LabelSelectorAttributes
 rawSelector string
 requirements []meta.v1.LabelSelectorRequirement
authorization.v1.FieldSelectorAttributes
 rawSelector string
 requirements []meta.v1.FieldSelectorRequirement
meta.v1.FieldSelectorRequirement
 key string
 operator string
 values []string
authorization.v1.NonResourceAttributes
 path string
 verb string
authorization.v1.SubjectAccessReview
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec authorization.v1.SubjectAccessReviewSpec
 status authorization.v1.SubjectAccessReviewStatus
authorization.v1.SubjectAccessReviewSpec
 extra {}[]string
 groups []string
 nonResourceAttributes authorization.v1.NonResourceAttributes
 resourceAttributes authorization.v1.ResourceAttributes
 uid string
 user string
autoscaling.v1.Scale
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec autoscaling.v1.ScaleSpec
 status autoscaling.v1.ScaleStatus
autoscaling.v1.ScaleStatus
 replicas int
 selector string
autoscaling.v1.ScaleSpec
 replicas int
batch.v1.Job
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec batch.v1.JobSpec
 status batch.v1.JobStatus
batch.v1.JobStatus
 active int
 completedIndexes string
 completionTime time
 conditions []batch.v1.JobCondition merge=type
 failed int
 failedIndexes string
 ready int
 startTime time
 succeeded int
 terminating int
 uncountedTerminatedPods batch.v1.UncountedTerminatedPods
batch.v1.UncountedTerminatedPods
 failed []string
 succeeded []string
batch.v1.JobCondition
 lastProbeTime time
 lastTransitionTime time
 message string
 reason string
 status string
 type string
batch.v1.JobSpec
 activeDeadlineSeconds int
 backoffLimit int
 backoffLimitPerIndex int
 completionMode string
 completions int
 managedBy string
 manualSelector bool
 maxFailedIndexes int
 parallelism int
 podFailurePolicy batch.v1.PodFailurePolicy
 podReplacementPolicy string
 selector meta.v1.LabelSelector
 successPolicy batch.v1.SuccessPolicy
 suspend bool
 template core.v1.PodTemplateSpec
 ttlSecondsAfterFinished int
batch.v1.SuccessPolicy
 rules []batch.v1.SuccessPolicyRule
batch.v1.SuccessPolicyRule
 succeededCount int
 succeededIndexes string
batch.v1.PodFailurePolicy
 rules []batch.v1.PodFailurePolicyRule
batch.v1.PodFailurePolicyRule
 action string
 onExitCodes batch.v1.PodFailurePolicyOnExitCodesRequirement
 onPodConditions []batch.v1.PodFailurePolicyOnPodConditionsPattern
batch.v1.PodFailurePolicyOnPodConditionsPattern
 status string
 type string
batch.v1.PodFailurePolicyOnExitCodesRequirement
 containerName string
 operator string
 values []int
coordination.v1.Lease
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec coordination.v1.LeaseSpec
coordination.v1.LeaseSpec
 acquireTime microtime
 holderIdentity string
 leaseDurationSeconds int
 leaseTransitions int
 preferredHolder string
 renewTime microtime
 strategy string
core.v1.Binding
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 target core.v1.ObjectReference
core.v1.ObjectReference
 apiVersion string
 fieldPath string
 kind string
 name string
 namespace string
 resourceVersion string
 uid string
core.v1.ConfigMap
 apiVersion string
 binaryData {}string
 data {}string
 immutable bool
 kind string
 metadata meta.v1.ObjectMeta
core.v1.Endpoints
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 subsets []core.v1.EndpointSubset
core.v1.EndpointSubset
 addresses []core.v1.EndpointAddress
 notReadyAddresses []core.v1.EndpointAddress
 ports []core.v1.EndpointPort
core.v1.EndpointPort
 appProtocol string
 name string
 port int
 protocol string
core.v1.EndpointAddress
 hostname string
 ip string
 nodeName string
 targetRef core.v1.ObjectReference
core.v1.Event
 action string
 apiVersion string
 count int
 eventTime microtime
 firstTimestamp time
 involvedObject core.v1.ObjectReference
 kind string
 lastTimestamp time
 message string
 metadata meta.v1.ObjectMeta
 reason string
 related core.v1.ObjectReference
 reportingComponent string
 reportingInstance string
 series core.v1.EventSeries
 source core.v1.EventSource
 type string
core.v1.EventSource
 component string
 host string
core.v1.EventSeries
 count int
 lastObservedTime microtime
core.v1.LimitRange
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.LimitRangeSpec
core.v1.LimitRangeSpec
 limits []core.v1.LimitRangeItem
core.v1.LimitRangeItem
 default {}quantity
 defaultRequest {}quantity
 max {}quantity
 maxLimitRequestRatio {}quantity
 min {}quantity
 type string
core.v1.Namespace
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.NamespaceSpec
 status core.v1.NamespaceStatus
core.v1.NamespaceStatus
 conditions []core.v1.NamespaceCondition merge=type
 phase string
core.v1.NamespaceCondition
 lastTransitionTime time
 message string
 reason string
 status string
 type string
core.v1.NamespaceSpec
 finalizers []string
core.v1.Node
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.NodeSpec
 status core.v1.NodeStatus
core.v1.NodeStatus
 addresses []core.v1.NodeAddress merge=type
 allocatable {}quantity
 capacity {}quantity
 conditions []core.v1.NodeCondition merge=type
 config core.v1.NodeConfigStatus
 daemonEndpoints core.v1.NodeDaemonEndpoints
 declaredFeatures []string
 features core.v1.NodeFeatures
 images []core.v1.ContainerImage
 nodeInfo core.v1.NodeSystemInfo
 phase string
 runtimeHandlers []core.v1.NodeRuntimeHandler
 volumesAttached []core.v1.AttachedVolume
 volumesInUse []string
core.v1.AttachedVolume
 devicePath string
 name string
core.v1.NodeRuntimeHandler
 features core.v1.NodeRuntimeHandlerFeatures
 name string
core.v1.NodeRuntimeHandlerFeatures
 recursiveReadOnlyMounts bool
 userNamespaces bool
core.v1.NodeSystemInfo
 architecture string
 bootID string
 containerRuntimeVersion string
 kernelVersion string
 kubeProxyVersion string
 kubeletVersion string
 machineID string
 operatingSystem string
 osImage string
 swap core.v1.NodeSwapStatus
 systemUUID string
core.v1.NodeSwapStatus
 capacity int
core.v1.ContainerImage
 names []string
 sizeBytes int
core.v1.NodeFeatures
 supplementalGroupsPolicy bool
core.v1.NodeDaemonEndpoints
 kubeletEndpoint core.v1.DaemonEndpoint
core.v1.DaemonEndpoint
 Port int
core.v1.NodeConfigStatus
 active core.v1.NodeConfigSource
 assigned core.v1.NodeConfigSource
 error string
 lastKnownGood core.v1.NodeConfigSource
core.v1.NodeConfigSource
 configMap core.v1.ConfigMapNodeConfigSource
core.v1.ConfigMapNodeConfigSource
 kubeletConfigKey string
 name string
 namespace string
 resourceVersion string
 uid string
core.v1.NodeCondition
 lastHeartbeatTime time
 lastTransitionTime time
 message string
 reason string
 status string
 type string
core.v1.NodeAddress
 address string
 type string
core.v1.NodeSpec
 configSource core.v1.NodeConfigSource
 externalID string
 podCIDR string
 podCIDRs []string merge
 providerID string
 taints []core.v1.Taint
 unschedulable bool
core.v1.Taint
 effect string
 key string
 timeAdded time
 value string
core.v1.PersistentVolume
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.PersistentVolumeSpec
 status core.v1.PersistentVolumeStatus
core.v1.PersistentVolumeStatus
 lastPhaseTransitionTime time
 message string
 phase string
 reason string
core.v1.PersistentVolumeSpec
 accessModes []string
 awsElasticBlockStore core.v1.AWSElasticBlockStoreVolumeSource
 azureDisk any
 azureFile any
 capacity {}quantity
 cephfs any
 cinder any
 claimRef core.v1.ObjectReference
 csi core.v1.CSIPersistentVolumeSource
 fc core.v1.FCVolumeSource
 flexVolume any
 flocker any
 gcePersistentDisk core.v1.GCEPersistentDiskVolumeSource
 glusterfs any
 hostPath core.v1.HostPathVolumeSource
 iscsi core.v1.ISCSIPersistentVolumeSource
 local core.v1.LocalVolumeSource
 mountOptions []string
 nfs core.v1.NFSVolumeSource
 nodeAffinity core.v1.VolumeNodeAffinity
 persistentVolumeReclaimPolicy string
 photonPersistentDisk any
 portworxVolume any
 quobyte any
 rbd core.v1.RBDPersistentVolumeSource
 scaleIO any
 storageClassName string
 storageos any
 volumeAttributesClassName string
 volumeMode string
 vsphereVolume any
core.v1.RBDPersistentVolumeSource
 fsType string
 image string
 keyring string
 monitors []string
 pool string
 readOnly bool
 secretRef core.v1.SecretReference
 user string
core.v1.SecretReference
 name string
 namespace string
core.v1.VolumeNodeAffinity
 required core.v1.NodeSelector
core.v1.LocalVolumeSource
 fsType string
 path string
core.v1.ISCSIPersistentVolumeSource
 chapAuthDiscovery bool
 chapAuthSession bool
 fsType string
 initiatorName string
 iqn string
 iscsiInterface string
 lun int
 portals []string
 readOnly bool
 secretRef core.v1.SecretReference
 targetPortal string
core.v1.CSIPersistentVolumeSource
 controllerExpandSecretRef core.v1.SecretReference
 controllerPublishSecretRef core.v1.SecretReference
 driver string
 fsType string
 nodeExpandSecretRef core.v1.SecretReference
 nodePublishSecretRef core.v1.SecretReference
 nodeStageSecretRef core.v1.SecretReference
 readOnly bool
 volumeAttributes {}string
 volumeHandle string
core.v1.PersistentVolumeClaim
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.PersistentVolumeClaimSpec
 status core.v1.PersistentVolumeClaimStatus
core.v1.PersistentVolumeClaimStatus
 accessModes []string
 allocatedResourceStatuses {}string
 allocatedResources {}quantity
 capacity {}quantity
 conditions []core.v1.PersistentVolumeClaimCondition merge=type
 currentVolumeAttributesClassName string
 modifyVolumeStatus core.v1.ModifyVolumeStatus
 phase string
core.v1.ModifyVolumeStatus
 status string
 targetVolumeAttributesClassName string
core.v1.PersistentVolumeClaimCondition
 lastProbeTime time
 lastTransitionTime time
 message string
 reason string
 status string
 type string
core.v1.Pod
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.PodSpec
 status core.v1.PodStatus
core.v1.PodStatus
 allocatedResources {}quantity
 conditions []core.v1.PodCondition merge=type
 containerStatuses []core.v1.ContainerStatus
 ephemeralContainerStatuses []core.v1.ContainerStatus
 extendedResourceClaimStatus core.v1.PodExtendedResourceClaimStatus
 hostIP string
 hostIPs []core.v1.HostIP merge=ip
 initContainerStatuses []core.v1.ContainerStatus
 message string
 nodeAllocatableResourceClaimStatuses []core.v1.NodeAllocatableResourceClaimStatus
 nominatedNodeName string
 observedGeneration int
 phase string
 podIP string
 podIPs []core.v1.PodIP merge=ip
 qosClass string
 reason string
 resize string
 resourceClaimStatuses []core.v1.PodResourceClaimStatus merge=name retain
 resources core.v1.ResourceRequirements
 startTime time
core.v1.PodResourceClaimStatus
 name string
 resourceClaimName string
core.v1.PodIP
 ip string
core.v1.NodeAllocatableResourceClaimStatus
 containers []string
 resourceClaimName string
 resources {}quantity
core.v1.HostIP
 ip string
core.v1.PodExtendedResourceClaimStatus
 requestMappings []core.v1.ContainerExtendedResourceRequest
 resourceClaimName string
core.v1.ContainerExtendedResourceRequest
 containerName string
 requestName string
 resourceName string
core.v1.ContainerStatus
 allocatedResources {}quantity
 allocatedResourcesStatus []core.v1.ResourceStatus merge=name
 containerID string
 image string
 imageID string
 lastState core.v1.ContainerState
 name string
 ready bool
 resources core.v1.ResourceRequirements
 restartCount int
 started bool
 state core.v1.ContainerState
 stopSignal string
 user core.v1.ContainerUser
 volumeMounts []core.v1.VolumeMountStatus merge=mountPath
core.v1.VolumeMountStatus
 mountPath string
 name string
 readOnly bool
 recursiveReadOnly string
 volumeStatus core.v1.VolumeStatus
core.v1.VolumeStatus
 image core.v1.ImageVolumeStatus
core.v1.ImageVolumeStatus
 imageRef string
core.v1.ContainerUser
 linux core.v1.LinuxContainerUser
core.v1.LinuxContainerUser
 gid int
 supplementalGroups []int
 uid int
core.v1.ContainerState
 running core.v1.ContainerStateRunning
 terminated core.v1.ContainerStateTerminated
 waiting core.v1.ContainerStateWaiting
core.v1.ContainerStateWaiting
 message string
 reason string
core.v1.ContainerStateTerminated
 containerID string
 exitCode int
 finishedAt time
 message string
 reason string
 signal int
 startedAt time
core.v1.ContainerStateRunning
 startedAt time
core.v1.ResourceStatus
 name string
 resources []core.v1.ResourceHealth keys=resourceID
core.v1.ResourceHealth
 health string
 message string
 resourceID string
core.v1.PodCondition
 lastProbeTime time
 lastTransitionTime time
 message string
 observedGeneration int
 reason string
 status string
 type string
core.v1.ReplicationController
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.ReplicationControllerSpec
 status core.v1.ReplicationControllerStatus
core.v1.ReplicationControllerStatus
 availableReplicas int
 conditions []core.v1.ReplicationControllerCondition merge=type
 fullyLabeledReplicas int
 observedGeneration int
 readyReplicas int
 replicas int
core.v1.ReplicationControllerCondition
 lastTransitionTime time
 message string
 reason string
 status string
 type string
core.v1.ReplicationControllerSpec
 minReadySeconds int
 replicas int
 selector {}string atomic
 template core.v1.PodTemplateSpec
core.v1.ResourceQuota
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.ResourceQuotaSpec
 status core.v1.ResourceQuotaStatus
core.v1.ResourceQuotaStatus
 hard {}quantity
 used {}quantity
core.v1.ResourceQuotaSpec
 hard {}quantity
 scopeSelector core.v1.ScopeSelector
 scopes []string
core.v1.ScopeSelector
 matchExpressions []core.v1.ScopedResourceSelectorRequirement
core.v1.ScopedResourceSelectorRequirement
 operator string
 scopeName string
 values []string
core.v1.Secret
 apiVersion string
 data {}string
 immutable bool
 kind string
 metadata meta.v1.ObjectMeta
 stringData {}string
 type string
core.v1.Service
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec core.v1.ServiceSpec
 status core.v1.ServiceStatus
core.v1.ServiceStatus
 conditions []meta.v1.Condition merge=type
 loadBalancer core.v1.LoadBalancerStatus
core.v1.LoadBalancerStatus
 ingress []core.v1.LoadBalancerIngress
core.v1.LoadBalancerIngress
 hostname string
 ip string
 ipMode string
 ports []core.v1.PortStatus
core.v1.PortStatus
 error string
 port int
 protocol string
meta.v1.Condition
 lastTransitionTime time
 message string
 observedGeneration int
 reason string
 status string
 type string
core.v1.ServiceSpec
 allocateLoadBalancerNodePorts bool
 clusterIP string
 clusterIPs []string
 externalIPs []string
 externalName string
 externalTrafficPolicy string
 healthCheckNodePort int
 internalTrafficPolicy string
 ipFamilies []string
 ipFamilyPolicy string
 loadBalancerClass string
 loadBalancerIP string
 loadBalancerSourceRanges []string
 ports []core.v1.ServicePort merge=port keys=port,protocol
 publishNotReadyAddresses bool
 selector {}string atomic
 sessionAffinity string
 sessionAffinityConfig core.v1.SessionAffinityConfig
 trafficDistribution string
 type string
core.v1.SessionAffinityConfig
 clientIP core.v1.ClientIPConfig
core.v1.ClientIPConfig
 timeoutSeconds int
core.v1.ServicePort
 appProtocol string
 name string
 nodePort int
 port int
 protocol string
 targetPort intstr
core.v1.ServiceAccount
 apiVersion string
 automountServiceAccountToken bool
 imagePullSecrets []core.v1.LocalObjectReference
 kind string
 metadata meta.v1.ObjectMeta
 secrets []core.v1.ObjectReference merge=name
discovery.v1.EndpointSlice
 addressType string
 apiVersion string
 endpoints []discovery.v1.Endpoint
 kind string
 metadata meta.v1.ObjectMeta
 ports []discovery.v1.EndpointPort
discovery.v1.EndpointPort
 appProtocol string
 name string
 port int
 protocol string
discovery.v1.Endpoint
 addresses []string
 conditions discovery.v1.EndpointConditions
 deprecatedTopology {}string
 hints discovery.v1.EndpointHints
 hostname string
 nodeName string
 targetRef core.v1.ObjectReference
 zone string
discovery.v1.EndpointHints
 forNodes []discovery.v1.ForNode
 forZones []discovery.v1.ForZone
discovery.v1.ForZone
 name string
discovery.v1.ForNode
 name string
discovery.v1.EndpointConditions
 ready bool
 serving bool
 terminating bool
events.v1.Event
 action string
 apiVersion string
 deprecatedCount int
 deprecatedFirstTimestamp time
 deprecatedLastTimestamp time
 deprecatedSource core.v1.EventSource
 eventTime microtime
 kind string
 metadata meta.v1.ObjectMeta
 note string
 reason string
 regarding core.v1.ObjectReference
 related core.v1.ObjectReference
 reportingController string
 reportingInstance string
 series events.v1.EventSeries
 type string
events.v1.EventSeries
 count int
 lastObservedTime microtime
meta.v1.DeleteOptions
 apiVersion string
 dryRun []string
 gracePeriodSeconds int
 ignoreStoreReadErrorWithClusterBreakingPotential bool
 kind string
 orphanDependents bool
 preconditions meta.v1.Preconditions
 propagationPolicy string
meta.v1.Preconditions
 resourceVersion string
 uid string
policy.v1.Eviction
 apiVersion string
 deleteOptions meta.v1.DeleteOptions
 kind string
 metadata meta.v1.ObjectMeta
policy.v1.PodDisruptionBudget
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec policy.v1.PodDisruptionBudgetSpec
 status policy.v1.PodDisruptionBudgetStatus
policy.v1.PodDisruptionBudgetStatus
 conditions []meta.v1.Condition merge=type
 currentHealthy int
 desiredHealthy int
 disruptedPods {}time
 disruptionsAllowed int
 expectedPods int
 observedGeneration int
policy.v1.PodDisruptionBudgetSpec
 maxUnavailable intstr
 minAvailable intstr
 selector meta.v1.LabelSelector
 unhealthyPodEvictionPolicy string
rbac.v1.ClusterRole
 aggregationRule rbac.v1.AggregationRule
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 rules []rbac.v1.PolicyRule
rbac.v1.PolicyRule
 apiGroups []string
 nonResourceURLs []string
 resourceNames []string
 resources []string
 verbs []string
rbac.v1.AggregationRule
 clusterRoleSelectors []meta.v1.LabelSelector
rbac.v1.ClusterRoleBinding
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 roleRef rbac.v1.RoleRef
 subjects []rbac.v1.Subject
rbac.v1.Subject
 apiGroup string
 kind string
 name string
 namespace string
rbac.v1.RoleRef
 apiGroup string
 kind string
 name string
rbac.v1.Role
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 rules []rbac.v1.PolicyRule
rbac.v1.RoleBinding
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 roleRef rbac.v1.RoleRef
 subjects []rbac.v1.Subject
resource.v1.DeviceClass
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec resource.v1.DeviceClassSpec
resource.v1.DeviceClassSpec
 config []resource.v1.DeviceClassConfiguration
 extendedResourceName string
 selectors []resource.v1.DeviceSelector
resource.v1.DeviceSelector
 cel resource.v1.CELDeviceSelector
resource.v1.CELDeviceSelector
 expression string
resource.v1.DeviceClassConfiguration
 opaque resource.v1.OpaqueDeviceConfiguration
resource.v1.OpaqueDeviceConfiguration
 driver string
 parameters any
resource.v1.ResourceClaim
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec resource.v1.ResourceClaimSpec
 status resource.v1.ResourceClaimStatus
resource.v1.ResourceClaimStatus
 allocation resource.v1.AllocationResult
 devices []resource.v1.AllocatedDeviceStatus keys=driver,device,pool,shareID
 reservedFor []resource.v1.ResourceClaimConsumerReference merge=uid
resource.v1.ResourceClaimConsumerReference
 apiGroup string
 name string
 resource string
 uid string
resource.v1.AllocatedDeviceStatus
 conditions []meta.v1.Condition keys=type
 data any
 device string
 driver string
 networkData resource.v1.NetworkDeviceData
 pool string
 shareID string
resource.v1.NetworkDeviceData
 hardwareAddress string
 interfaceName string
 ips []string
resource.v1.AllocationResult
 allocationTimestamp time
 devices resource.v1.DeviceAllocationResult
 nodeSelector core.v1.NodeSelector
resource.v1.DeviceAllocationResult
 config []resource.v1.DeviceAllocationConfiguration
 results []resource.v1.DeviceRequestAllocationResult
resource.v1.DeviceRequestAllocationResult
 adminAccess bool
 bindingConditions []string
 bindingFailureConditions []string
 consumedCapacity {}quantity
 device string
 driver string
 pool string
 request string
 shareID string
 tolerations []resource.v1.DeviceToleration
resource.v1.DeviceToleration
 effect string
 key string
 operator string
 tolerationSeconds int
 value string
resource.v1.DeviceAllocationConfiguration
 opaque resource.v1.OpaqueDeviceConfiguration
 requests []string
 source string
resource.v1.ResourceClaimSpec
 devices resource.v1.DeviceClaim
resource.v1.DeviceClaim
 config []resource.v1.DeviceClaimConfiguration
 constraints []resource.v1.DeviceConstraint
 requests []resource.v1.DeviceRequest
resource.v1.DeviceRequest
 exactly resource.v1.ExactDeviceRequest
 firstAvailable []resource.v1.DeviceSubRequest
 name string
resource.v1.DeviceSubRequest
 allocationMode string
 capacity resource.v1.CapacityRequirements
 count int
 deviceClassName string
 name string
 selectors []resource.v1.DeviceSelector
 tolerations []resource.v1.DeviceToleration
resource.v1.CapacityRequirements
 requests {}quantity
resource.v1.ExactDeviceRequest
 adminAccess bool
 allocationMode string
 capacity resource.v1.CapacityRequirements
 count int
 deviceClassName string
 selectors []resource.v1.DeviceSelector
 tolerations []resource.v1.DeviceToleration
resource.v1.DeviceConstraint
 distinctAttribute string
 matchAttribute string
 requests []string
resource.v1.DeviceClaimConfiguration
 opaque resource.v1.OpaqueDeviceConfiguration
 requests []string
resource.v1.ResourceClaimTemplate
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec resource.v1.ResourceClaimTemplateSpec
resource.v1.ResourceClaimTemplateSpec
 metadata meta.v1.ObjectMeta
 spec resource.v1.ResourceClaimSpec
resource.v1.ResourceSlice
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec resource.v1.ResourceSliceSpec
resource.v1.ResourceSliceSpec
 allNodes bool
 devices []resource.v1.Device
 driver string
 nodeName string
 nodeSelector core.v1.NodeSelector
 perDeviceNodeSelection bool
 pool resource.v1.ResourcePool
 sharedCounters []resource.v1.CounterSet
resource.v1.CounterSet
 counters {}resource.v1.Counter
 name string
resource.v1.Counter
 value quantity
resource.v1.ResourcePool
 generation int
 name string
 resourceSliceCount int
resource.v1.Device
 allNodes bool
 allowMultipleAllocations bool
 attributes {}resource.v1.DeviceAttribute
 bindingConditions []string
 bindingFailureConditions []string
 bindsToNode bool
 capacity {}resource.v1.DeviceCapacity
 consumesCounters []resource.v1.DeviceCounterConsumption
 name string
 nodeAllocatableResourceMappings {}resource.v1.NodeAllocatableResourceMapping
 nodeName string
 nodeSelector core.v1.NodeSelector
 taints []resource.v1.DeviceTaint
resource.v1.DeviceTaint
 effect string
 key string
 timeAdded time
 value string
resource.v1.NodeAllocatableResourceMapping
 allocationMultiplier quantity
 capacityKey string
resource.v1.DeviceCounterConsumption
 counterSet string
 counters {}resource.v1.Counter
resource.v1.DeviceCapacity
 requestPolicy resource.v1.CapacityRequestPolicy
 value quantity
resource.v1.CapacityRequestPolicy
 default quantity
 validRange resource.v1.CapacityRequestPolicyRange
 validValues []quantity
resource.v1.CapacityRequestPolicyRange
 max quantity
 min quantity
 step quantity
resource.v1.DeviceAttribute
 bool bool
 bools []bool
 int int
 ints []int
 string string
 strings []string
 version string
 versions []string
scheduling.v1.PriorityClass
 apiVersion string
 description string
 globalDefault bool
 kind string
 metadata meta.v1.ObjectMeta
 preemptionPolicy string
 value int
storage.v1.CSIDriver
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec storage.v1.CSIDriverSpec
storage.v1.CSIDriverSpec
 attachRequired bool
 fsGroupPolicy string
 nodeAllocatableUpdatePeriodSeconds int
 podInfoOnMount bool
 preventPodSchedulingIfMissing bool
 requiresRepublish bool
 seLinuxMount bool
 serviceAccountTokenInSecrets bool
 storageCapacity bool
 tokenRequests []storage.v1.TokenRequest
 volumeLifecycleModes []string
storage.v1.TokenRequest
 audience string
 expirationSeconds int
storage.v1.CSINode
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec storage.v1.CSINodeSpec
storage.v1.CSINodeSpec
 drivers []storage.v1.CSINodeDriver merge=name
storage.v1.CSINodeDriver
 allocatable storage.v1.VolumeNodeResources
 name string
 nodeID string
 topologyKeys []string
storage.v1.VolumeNodeResources
 count int
storage.v1.CSIStorageCapacity
 apiVersion string
 capacity quantity
 kind string
 maximumVolumeSize quantity
 metadata meta.v1.ObjectMeta
 nodeTopology meta.v1.LabelSelector
 storageClassName string
storage.v1.StorageClass
 allowVolumeExpansion bool
 allowedTopologies []core.v1.TopologySelectorTerm
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 mountOptions []string
 parameters {}string
 provisioner string
 reclaimPolicy string
 volumeBindingMode string
core.v1.TopologySelectorTerm
 matchLabelExpressions []core.v1.TopologySelectorLabelRequirement
core.v1.TopologySelectorLabelRequirement
 key string
 values []string
storage.v1.VolumeAttachment
 apiVersion string
 kind string
 metadata meta.v1.ObjectMeta
 spec storage.v1.VolumeAttachmentSpec
 status storage.v1.VolumeAttachmentStatus
storage.v1.VolumeAttachmentStatus
 attachError storage.v1.VolumeError
 attached bool
 attachmentMetadata {}string
 detachError storage.v1.VolumeError
storage.v1.VolumeError
 errorCode int
 message string
 time time
storage.v1.VolumeAttachmentSpec
 attacher string
 nodeName string
 source storage.v1.VolumeAttachmentSource
storage.v1.VolumeAttachmentSource
 inlineVolumeSpec core.v1.PersistentVolumeSpec
 persistentVolumeName string
"""
