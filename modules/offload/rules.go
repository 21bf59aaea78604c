// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"net/netip"

	kernel "weir/kernel/flower"
	"weir/kernel/netns"
	"weir/modules/offload/flower"
)

// Filter is one rule of tc flower in force.
type Filter struct {
	Device   string `json:"device"`
	Chain    uint32 `json:"chain"`
	Priority uint16 `json:"priority"`
	Handle   uint32 `json:"handle"`
	To       string `json:"to,omitempty"` // prefix; "" where it does not ask
	Does     string `json:"does"`
	InHW     bool   `json:"in_hw"`
	Packets  uint64 `json:"packets"`
	Octets   uint64 `json:"octets"`
	Shared   bool   `json:"shared"` // counted together with all that do the same
}

func (f Filter) String() string {
	what := ""
	if f.To != "" {
		what = " to " + f.To
	}
	return fmt.Sprintf("chain %d, priority %d, handle %#x%s: %s", f.Chain, f.Priority, f.Handle, what, f.Does)
}

func ruleOf(device string, f kernel.Filter) Filter {
	out := Filter{Device: device, Chain: f.Chain, Priority: f.Priority, Handle: f.Handle, Does: flower.Words(f), InHW: f.InHW, Packets: f.Packets, Octets: f.Octets, Shared: f.Shared}
	if f.Dst != (netip.Prefix{}) {
		out.To = f.Dst.String()
	}
	return out
}

// Filters are the rules in force that are pinned in a folder, as the kernel tells them;
// [flower.ErrNone] where there are none. ns is the router's namespace; nil is the calling thread's.
func Filters(ns *netns.Namespace, pins string) (all []Filter, err error) {
	inForce, err := flower.Read(ns, pins)
	if err != nil {
		return nil, err
	}
	for _, port := range inForce.Ports {
		for _, f := range port.Filters {
			all = append(all, ruleOf(port.Name, f))
		}
	}
	return all, nil
}
