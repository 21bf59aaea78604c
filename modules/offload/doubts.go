// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"slices"
	"strings"

	"weir/core/module"
	"weir/core/policy"
)

// forwarded are the selectors that tell what a router forwards as well as what it sends.
var forwarded = []string{"host", "interface", "prefix"}

// atDevices are rooms whose items treat all packets that pass a device.
var atDevices = []string{"borders", "links"}

// Doubts warns of scopes and devices whose treatments the fast path goes past: its packets meet no
// other program and no qdisc.
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
	return []string{fmt.Sprintf("offload: what it forwards passes the treatments of %s uncounted: name the prefixes that they are about in offload.except, or leave links out",
		strings.Join(names, ", "))}
}
