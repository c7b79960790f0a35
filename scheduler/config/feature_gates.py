"""The feature gates of kube-scheduler 1.36, and the settings that this version supports.

Source: kubernetes pkg/features/kube_features.go, k8s.io/apiserver/pkg/features,
k8s.io/client-go/features, k8s.io/component-base (1.36.3): the gates that kube-scheduler shows as
`kubernetes_feature_enabled`. Decisions depend on the gates that pkg/scheduler reads.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

STORAGE_CAPACITY_SCORING: Final = "StorageCapacityScoring"
"""VolumeBinding scores nodes by the storage capacity that would be left."""

DRA_DEVICE_TAINT_RULES: Final = "DRADeviceTaintRules"
"""DeviceTaintRules taint devices, as drivers do in slices."""

TAINT_TOLERATION_COMPARISON_OPERATORS: Final = "TaintTolerationComparisonOperators"
"""The operators Gt and Lt of tolerations compare whole numbers."""

VOLUME_LIMIT_SCALING: Final = "VolumeLimitScaling"
"""A CSI driver may demand that its volumes go only to nodes on which it is installed."""

COORDINATED_LEADER_ELECTION: Final = "CoordinatedLeaderElection"
"""The control plane chooses the leader among the candidates, by their versions."""

GENERIC_WORKLOAD: Final = "GenericWorkload"
"""PodGroups are read, and the members of a group are placed together."""

GANG_SCHEDULING: Final = "GangScheduling"
"""A group with a `minCount` starts with at least this number of members, or waits."""

TOPOLOGY_AWARE_WORKLOAD_SCHEDULING: Final = "TopologyAwareWorkloadScheduling"
"""A group with a topology key is placed on nodes with the same value of this label."""

WORKLOAD_AWARE_PREEMPTION: Final = "WorkloadAwarePreemption"
"""Victims are chosen for a whole group; a group may require that it is evicted as a whole."""

POD_GROUPS: Final = frozenset({GENERIC_WORKLOAD, GANG_SCHEDULING})
"""The gates that must be on for pod groups to be read and gangs to be placed as a whole."""

SWITCHES: Final = POD_GROUPS | {
    COORDINATED_LEADER_ELECTION,
    DRA_DEVICE_TAINT_RULES,
    STORAGE_CAPACITY_SCORING,
    TAINT_TOLERATION_COMPARISON_OPERATORS,
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    VOLUME_LIMIT_SCALING,
    WORKLOAD_AWARE_PREEMPTION,
}
"""The gates that can be on and off here."""

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    GANG_SCHEDULING: (GENERIC_WORKLOAD,),
    TOPOLOGY_AWARE_WORKLOAD_SCHEDULING: (GENERIC_WORKLOAD,),
    WORKLOAD_AWARE_PREEMPTION: (GANG_SCHEDULING,),
}
"""The gates that a gate of `SWITCHES` depends on."""

_ON: Final = """
APIResponseCompression APIServerIdentity APIServerTracing AggregatedDiscoveryRemoveBetaType
AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs AnonymousAuthConfigurableEndpoints
AnyVolumeDataSource AtomicFIFO AuthorizeNodeWithSelectors
AuthorizePodWebsocketUpgradeCreatePermission AuthorizeWithSelectors BtreeWatchCache
CPUManagerPolicyBetaOptions CPUManagerPolicyOptions CRDObservedGenerationTracking
CRDValidationRatcheting CSIServiceAccountTokenSecrets ClearingNominatedNodeNameAfterBinding
ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz
ConsistentListFromCache ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules
ContextualLogging CustomCPUCFSQuotaPeriod CustomResourceFieldSelectors DRAAdminAccess
DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource
DRAPartitionableDevices DRAPrioritizedList DRAResourceClaimDeviceStatus
DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout DeclarativeValidation
DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency
DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion
DynamicResourceAllocation EnvFiles ExecProbeTimeout ExtendWebSocketsToKubelet
ExternalServiceAccountTokenSigner GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
HPAConfigurableTolerance HostnameOverride ImageMaximumGCAge ImageVolume InOrderInformers
InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers InformerResourceVersion JobBackoffLimitPerIndex
JobManagedBy JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletPSI
KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletPodResourcesListUseActivePods
KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders KubeletTracing
ListFromCacheSnapshot LogarithmicScaleDown LoggingBetaOptions MatchLabelKeysInPodAffinity
MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
MultiCIDRServiceAllocator MutableCSINodeAllocatableCount MutablePodResourcesForSuspendedJobs
MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy NFTablesProxyMode
NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching OrderedNamespaceDeletion
PLEGOnDemandRelist PodDeletionCost PodLevelResources PodLifecycleSleepAction
PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodReadyToStartContainersCondition
PodSchedulingReadiness PodTopologyLabelsAdmission PortForwardWebsockets
PreferSameTrafficDistribution PreventStaticPodAPIReferences ProcMountType
RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedDNSSearchValidation
RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation ReloadKubeletClientCAFile
ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResilientWatchCacheInitialization
ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits
RetryGenerateName RotateKubeletServerCertificate SELinuxChangePolicy SELinuxMountReadWriteOncePod
SchedulerAsyncPreemption SchedulerPopFromBackoffQ SchedulerQueueingHints
SeparateTaintEvictionController ServiceAccountNodeAudienceRestriction ServiceAccountTokenJTI
ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation
ServiceAccountTokenPodNodeInfo ServiceCIDRStatusFieldWiping SidecarContainers
SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
StatefulSetSemanticRevisionComparison StorageNamespaceIndex StorageVersionHash
StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StrictIPCIDRValidation
StructuredAuthenticationConfiguration StructuredAuthenticationConfigurationEgressSelector
StructuredAuthenticationConfigurationJWKSMetrics SupplementalGroupsPolicy SystemdWatchdog
TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions
TopologyManagerPolicyOptions TranslateStreamCloseWebsocketRequests
UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO
UserNamespacesSupport VolumeAttributesClass WatchCacheInitializationPostStartHook WatchList
WatchListClient WinDSR WinOverlay WindowsGracefulNodeShutdown
"""

_OFF: Final = """
APIServingWithRoutine AllAlpha AllBeta AllowDNSOnlyNodeCSR
AllowInsecureKubeletCertificateSigningRequests AllowOverwriteTerminationGracePeriodSeconds
AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions
CRIListStreaming CSIVolumeHealth ChangeContainerStatusOnKubeletRestart ClientsAllowCBOR
ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation
CloudControllerManagerWebhook ClusterTrustBundle ClusterTrustBundleProjection
ConcurrentWatchObjectDecode ContainerStopSignals ControllerManagerReleaseLeaderElectionLockOnExit
CoordinatedLeaderElection CrossNamespaceVolumeDataSource DRADeviceTaintRules DRAListTypeAttributes
DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims
DeclarativeValidationTakeover EventedPLEG GangScheduling GenericWorkload GitRepoVolumeDriver
HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
InPlacePodVerticalScalingExclusiveMemory KMSv1 KubeletInUserNamespace
KubeletRegistrationGetOnExistsOnly LocalStorageCapacityIsolationFSQuotaMonitoring
LoggingAlphaOptions ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet MemoryQoS
MutablePVNodeAffinity NativeHistograms PersistentVolumeClaimUnusedSinceTime
PodAndContainerStatsFromCRI PodCertificateRequest PodLevelResourceManagers
PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
RuntimeClassInImageCriApi SELinuxMount SchedulerAsyncAPICalls SeparateCacheWatchRPC
ShardedListAndWatch StorageCapacityScoring StorageVersionAPI StorageVersionMigrator
TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling
TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport VolumeLimitScaling
WindowsCPUAndMemoryAffinity WindowsHostNetwork WorkloadAwarePreemption WorkloadWithJob
"""

DEFAULTS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(_ON.split(), True),
    **dict.fromkeys(_OFF.split(), False),
}
"""Every feature gate of kube-scheduler 1.36, and whether it is on by default."""

OTHERWISE_HERE: Final[Mapping[str, bool]] = {
    "OpportunisticBatching": False,
    "SchedulerAsyncAPICalls": False,
}
"""Gates whose effective setting in this version is not upstream's default."""

_READ_BY_SCHEDULER: Final = """
AllAlpha AllBeta CoordinatedLeaderElection DRAAdminAccess DRAConsumableCapacity
DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource
DRAListTypeAttributes DRANodeAllocatableResources DRAPartitionableDevices DRAPrioritizedList
DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DRAWorkloadResourceClaims
DynamicResourceAllocation GangScheduling GenericWorkload InPlacePodLevelResourcesVerticalScaling
InPlacePodVerticalScaling MatchLabelKeysInPodTopologySpread NodeDeclaredFeatures
NodeInclusionPolicyInPodTopologySpread NominatedNodeNameForExpectation OpportunisticBatching
PodLevelResources SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ
SchedulerQueueingHints SidecarContainers StorageCapacityScoring TaintTolerationComparisonOperators
TopologyAwareWorkloadScheduling VolumeAttributesClass VolumeLimitScaling WorkloadAwarePreemption
"""

OF_SCHEDULING: Final = frozenset(_READ_BY_SCHEDULER.split())
"""The gates on which kube-scheduler's behaviour depends; the others are for other components."""


def turned_on(settings: Iterable[str]) -> frozenset[str]:
    """Return the gates that are on after settings as `Name=true`; the last one of a name counts."""
    return frozenset(name for name, is_on in _last(settings).items() if is_on)


def unsupported_gates(settings: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield the gates whose setting this version does not support, with this setting.

    A gate that is set to its default is accepted even if this version behaves otherwise.
    """
    return (gate for gate in _differing(settings) if gate[0] in OF_SCHEDULING)


def lacking_gates(settings: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the gates that are on, with the gates on which they depend and that are off.

    Source: k8s.io/component-base/featuregate/feature_gate.go (validateDependencies) v0.36.
    """
    is_on = turned_on(settings)
    for name in sorted(is_on & NEEDS.keys()):
        lacking = sorted(set(NEEDS[name]) - is_on)
        if lacking:
            yield name, lacking


def gates_without_effect(settings: Iterable[str]) -> Iterator[str]:
    """Yield the gates of other components that are not set to their default."""
    return (name for name, _ in _differing(settings) if name not in OF_SCHEDULING)


def _differing(settings: Iterable[str]) -> Iterator[tuple[str, bool]]:
    for name, is_on in _last(settings).items():
        default = DEFAULTS[name]
        if name not in SWITCHES and is_on not in (default, OTHERWISE_HERE.get(name, default)):
            yield name, is_on


def _last(settings: Iterable[str]) -> dict[str, bool]:
    pairs = dict(setting.split("=") for setting in settings)
    return {name: value == "true" for name, value in pairs.items()}
