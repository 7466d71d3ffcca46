// Package check tests files of deploy with the libraries of the programs that read them: the parser of BuildKit, the
// configuration of goreleaser, and the engine and the linter of Helm. It is a module of its own, because these libraries
// have many dependencies.
package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Render returns the texts of the objects of a chart for a release, in order of their files. A text may have several objects.
func Render(folder, release, namespace string, values map[string]any) (texts []string, err error) {
	c, err := loader.LoadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: release, Namespace: namespace}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("values of the chart: %w", err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			texts = append(texts, files[name])
		}
	}
	return texts, nil
}
