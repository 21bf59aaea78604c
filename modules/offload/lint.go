// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"slices"
	"strings"

	"weir/core/module"
	"weir/core/policy"
)

// forwarded lists the selectors that match forwarded packets too.
var forwarded = []string{"host", "interface", "prefix"}

// atDevices lists the modules that treat all packets of a device.
var atDevices = []string{"borders", "links"}

// Lint warns of scopes and devices with treatments that the fast path bypasses: its packets reach
// no other program and no qdisc.
func (Module) Lint(p *policy.Policy) []string {
	if treatmentOf(module.State{Host: p.Host}) == nil {
		return nil
	}
	var names []string
	for _, s := range p.Scopes {
		if slices.Contains(forwarded, s.Selector.Kind) {
			names = append(names, s.Name)
		}
	}
	for _, item := range p.Host {
		if slices.Contains(atDevices, item.Module) {
			names = append(names, item.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("offload: forwarded packets bypass the treatments of %s: list their prefixes in offload.except, or remove links",
		strings.Join(names, ", "))}
}
