// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/netconf/modules"
	"weir/netconf/schema"
)

//go:embed modules/*.yang
var embedded embed.FS

// Names of modules.
const (
	interfaces = "ietf-interfaces"
	generator  = "ietf-traffic-generator"
	analyzer   = "ietf-traffic-analyzer"
	ethernet   = "iana-if-type:ethernetCsmacd"
)

// model is one revision of the tester's model: its modules, and the names and encodings in which
// it differs from the newest one.
type model struct {
	generator, analyzer string // revisions
	gap, burstGap       string
	streamGap           string
	hex                 bool // frame data is hexadecimal text, not base64
	flat                bool // counters lie directly in state, and the filter has no offset
}

// old are the names before -08 of the draft.
func old(generator, analyzer string) model {
	return model{
		generator: generator, analyzer: analyzer, gap: "interframe-gap", burstGap: "interburst-gap", streamGap: "interstream-gap", hex: true, flat: true,
	}
}

// models by the name of --model, the newest one first in Models.
var models = map[string]model{
	"2026-07-02": {generator: "2026-07-02", analyzer: "2026-06-26", gap: "gap", burstGap: "burst-gap", streamGap: "stream-gap"},
	"2025-11-03": old("2025-11-03", "2025-11-03"),
	"2024-10-21": old("2024-10-21", "2024-10-21"),
}

// Models lists the names of --model.
func Models() []string {
	var all []string
	for name := range models {
		all = append(all, name)
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all
}

// features of the model's modules that this device supports.
var (
	generatorFeatures = []string{"multi-stream", "realtime-epoch"}
	analyzerFeatures  = []string{"testframe-filter", "capture", "idle-octets-counter"}
)

// Missing lists features of the model that are not supported, with the reason.
func Missing() []string {
	return []string{
		"capture-filter: a capture holds all frames",
		"payload-errors and errors: no counter, because raw frame data has no known checksum",
	}
}

// load reads the modules of a model. idle is false if a port has no speed.
func load(name string, startup, idle bool) (*schema.Set, *model, error) {
	m, known := models[name]
	if !known {
		return nil, nil, fault.New(fault.Usage, "use "+strings.Join(Models(), ", "), "there is no model %s", name)
	}
	supported := slices.Clone(analyzerFeatures)
	if !idle {
		supported = slices.DeleteFunc(supported, func(f string) bool { return f == "idle-octets-counter" })
	}
	sources := append(modules.Sources(startup),
		schema.Source{Name: "iana-if-type@2026-03-17"},
		schema.Source{Name: interfaces + "@2018-02-20"},
		schema.Source{Name: generator + "@" + m.generator, Features: generatorFeatures},
		schema.Source{Name: analyzer + "@" + m.analyzer, Features: supported},
		schema.Source{Name: extensions + "@2026-11-28"})
	set, err := schema.Load(sources, modules.Files, prefixed{embedded})
	if err != nil {
		return nil, nil, fmt.Errorf("load model %s: %w", name, err)
	}
	return set, &m, nil
}
