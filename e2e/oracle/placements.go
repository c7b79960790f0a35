package main

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

const (
	orderedName = "OrderedPlacements"
	wantedName  = "WantedPlacement"
	// tie is less than the smallest difference between two placements.
	tie = 1000
)

// placements leave nothing to chance: the placement that is asked for is tried first, the others by
// name, and it wins where no other is better. All else is kube-scheduler's own.
type placements struct {
	wanted string
}

// adapt puts the plugins of this file into all profiles, beside or for those of kube-scheduler.
func (p *placements) adapt(cfg *config.KubeSchedulerConfiguration) frameworkruntime.Registry {
	for i := range cfg.Profiles {
		plugins := cfg.Profiles[i].Plugins
		weights := []config.Plugin{{Name: wantedName, Weight: 1}}
		for j := range plugins.MultiPoint.Enabled {
			plugin := &plugins.MultiPoint.Enabled[j]
			switch plugin.Name {
			case topologyaware.Name:
				plugin.Name = orderedName
			case "NodeResourcesFit", "PodGroupPodsCount":
				weights = append(weights, config.Plugin{Name: plugin.Name, Weight: tie * max(plugin.Weight, 1)})
			}
		}
		plugins.PlacementScore.Enabled = weights
	}
	return frameworkruntime.Registry{orderedName: p.newOrdered, wantedName: p.newWanted}
}

type orderedPlacements struct {
	*topologyaware.TopologyPlacement
	placements *placements
}

func (p *placements) newOrdered(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	inner, err := topologyaware.New(ctx, args, handle, features)
	return &orderedPlacements{inner, p}, err
}

func (o *orderedPlacements) Name() string { return orderedName }

func (o *orderedPlacements) GeneratePlacements(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, parent *fwk.Placement) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	result, status := o.TopologyPlacement.GeneratePlacements(ctx, state, group, parent)
	if status.IsSuccess() {
		slices.SortFunc(result.Placements, func(a, b *fwk.Placement) int {
			if (a.Name == o.placements.wanted) != (b.Name == o.placements.wanted) {
				if a.Name == o.placements.wanted {
					return -1
				}
				return 1
			}
			return strings.Compare(a.Name, b.Name)
		})
	}
	return result, status
}

type wantedPlacement struct{ placements *placements }

func (p *placements) newWanted(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return &wantedPlacement{p}, nil
}

func (w *wantedPlacement) Name() string { return wantedName }

func (w *wantedPlacement) ScorePlacement(_ context.Context, _ fwk.PodGroupCycleState, _ fwk.PodGroupInfo, placement *fwk.PodGroupAssignments) (int64, *fwk.Status) {
	if placement.Name == w.placements.wanted {
		return 1, nil
	}
	return 0, nil
}

func (w *wantedPlacement) PlacementScoreExtensions() fwk.PlacementScoreExtensions { return nil }
