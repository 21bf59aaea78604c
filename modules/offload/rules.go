// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"net/netip"

	kernel "weir/kernel/flower"
	"weir/kernel/netns"
	"weir/modules/offload/flower"
)

// Filter is one active tc flower rule.
type Filter struct {
	Device   string `json:"device"`
	Chain    uint32 `json:"chain"`
	Priority uint16 `json:"priority"`
	Handle   uint32 `json:"handle"`
	To       string `json:"to,omitempty"` // prefix; "" for a rule that does not match the destination
	Does     string `json:"does"`
	InHW     bool   `json:"in_hw"`
	Packets  uint64 `json:"packets"`
	Octets   uint64 `json:"octets"`
	Shared   bool   `json:"shared"` // the counters are of all rules with the same action
}

func (f Filter) String() string {
	to := ""
	if f.To != "" {
		to = " to " + f.To
	}
	return fmt.Sprintf("chain %d, priority %d, handle %#x%s: %s", f.Chain, f.Priority, f.Handle, to, f.Does)
}

func ruleOf(device string, f kernel.Filter) Filter {
	out := Filter{Device: device, Chain: f.Chain, Priority: f.Priority, Handle: f.Handle, Does: flower.Words(f), InHW: f.InHW, Packets: f.Packets, Octets: f.Octets, Shared: f.Shared}
	if f.Dst != (netip.Prefix{}) {
		out.To = f.Dst.String()
	}
	return out
}

// Filters returns the active rules pinned in a folder, as the kernel reports them; [flower.ErrNone]
// without rules. ns is the router's namespace; nil is the calling thread's.
func Filters(ns *netns.Namespace, pins string) (all []Filter, err error) {
	active, err := flower.Read(ns, pins)
	if err != nil {
		return nil, err
	}
	for _, port := range active.Ports {
		for _, f := range port.Filters {
			all = append(all, ruleOf(port.Name, f))
		}
	}
	return all, nil
}
