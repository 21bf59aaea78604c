// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weir/core/policy"
	"weir/internal/yamlfile"
	"weir/modules/offload/plan"
	"weir/modules/offload/state"
)

const moduleName = "offload"

// sectionKeys is the module's section of a policy file.
type sectionKeys struct {
	Offload *keys `yaml:"offload" doc:"Packets that a fast path (XDP, tc flower or the NIC) forwards in place of the kernel, with the same result."`
}

// keys holds the keys of the section.
type keys struct {
	yamlfile.Fields `yaml:"-"`
	From            []yamlfile.Text `yaml:"from,required" doc:"Input links of offloaded packets: names of devices, or of VLAN devices on them."`
	To              []yamlfile.Text `yaml:"to" doc:"Output links of offloaded packets. Default: the links of 'from'."`
	Table           string          `yaml:"table" doc:"Restricts offloading to the prefixes of one routing table: 'main', 'default' or a number. Without the key, all tables. Forwarding always follows the kernel's rules and tables."`
	Except          []yamlfile.Text `yaml:"except" doc:"Destination prefixes that the kernel forwards."`
	Budget          *int            `yaml:"budget" doc:"Maximum number of offloaded prefixes. Weir samples packets and offloads the busiest routes. Default: all routes."`
	Backend         string          `yaml:"backend" enum:"xdp,flower,hardware" doc:"Mechanism. xdp (the default) is a program at the driver; flower installs tc filters in software; hardware installs the same filters only in the NIC (skip_sw), either all or none of them."`
	Multipath       string          `yaml:"multipath" enum:"split,cpu" doc:"Treatment of multipath routes. split (the default) selects the next hop by a weighted hash of the addresses; cpu leaves multipath routes to the kernel and its own hash."`
	IPv4            *bool           `yaml:"ipv4" doc:"Offload IPv4. Default: true."`
	IPv6            *bool           `yaml:"ipv6" doc:"Offload IPv6. Default: true."`
}

// Treatment is the offload of a policy.
type Treatment struct {
	From      []string `json:"from"`
	To        []string `json:"to,omitempty"`
	Table     uint32   `json:"table,omitempty"`
	Except    []string `json:"except,omitempty"`
	Budget    int      `json:"budget,omitempty"`  // prefixes that the table may have; 0 is all
	Backend   string   `json:"backend,omitempty"` // one of the backends; "" is XDP
	Multipath string   `json:"multipath"`
	IPv4      bool     `json:"ipv4"`
	IPv6      bool     `json:"ipv6"`
}

// Summary describes the treatment in one line.
func (t *Treatment) Summary() string {
	text := "from " + strings.Join(t.From, ", ")
	if len(t.To) > 0 {
		text += " to " + strings.Join(t.To, ", ")
	}
	if t.Table != 0 {
		text += fmt.Sprintf(", prefixes of table %d", t.Table)
	}
	if t.Budget != 0 {
		text += fmt.Sprintf(", at most %d prefixes", t.Budget)
	}
	if t.filters() {
		text += ", by " + mechanisms[t.Backend]
	}
	switch {
	case !t.IPv6:
		text += ", IPv4"
	case !t.IPv4:
		text += ", IPv6"
	}
	return text
}

// Policy returns the policy for the planner.
func (t *Treatment) Policy() plan.Policy {
	p := plan.Policy{From: t.From, To: t.To, Table: t.Table, Multipath: plan.Multipath(t.Multipath), IPv4: t.IPv4, IPv6: t.IPv6}
	for _, text := range t.Except {
		if to, err := netip.ParsePrefix(text); err == nil { // checked by read
			p.Except = append(p.Except, to)
		}
	}
	return p
}

func grammar() policy.Grammar {
	return policy.Grammar{Module: moduleName, Section: sectionKeys{}, Read: read}
}

// maxBudget is beyond any table of routes; a larger number is a mistake.
const maxBudget = 1 << 24

var tables = map[string]uint32{"": 0, "main": state.MainTable, "default": state.DefaultTable}

func read(d *policy.Draft) {
	section, _ := d.Section.(*sectionKeys)
	if section == nil || section.Offload == nil {
		return
	}
	k := section.Offload
	if k.Flawed() {
		return
	}
	t := &Treatment{Multipath: string(plan.Split), IPv4: k.IPv4 == nil || *k.IPv4, IPv6: k.IPv6 == nil || *k.IPv6}
	if k.Backend != byXDP {
		t.Backend = k.Backend
	}
	if k.Budget != nil {
		if t.Budget = *k.Budget; t.Budget < 1 || t.Budget > maxBudget {
			d.ComplainAt(k.At("budget"), "write the maximum number of prefixes, as budget: 10000; omit it for all", "offload.budget: %d is not a number of prefixes from 1 to %d", t.Budget, maxBudget)
		}
	}
	if k.Multipath != "" {
		t.Multipath = k.Multipath
	}
	t.From, t.To = names(d, "from", k.From), names(d, "to", k.To)
	if len(t.From) == 0 {
		d.ComplainAt(k.At("from"), "name the input links, as from: [eth0, eth1.10]", "offload.from: no link is named")
	}
	if !t.IPv4 && !t.IPv6 {
		d.ComplainAt(k.Self, "remove the section, or one of ipv4 and ipv6", "offload: neither ipv4 nor ipv6 is offloaded")
	}
	table, known := tables[k.Table]
	if !known {
		n, err := strconv.ParseUint(k.Table, 10, 32)
		if err != nil || n == 0 || n == uint64(state.LocalTable) {
			d.ComplainAt(k.At("table"), "write main, default or a number, as in ip route show table 100", "offload.table: %q is not a routing table", k.Table)
		}
		table = uint32(n)
	}
	t.Table = table
	for _, e := range k.Except {
		to, err := netip.ParsePrefix(e.Value)
		if err != nil {
			d.ComplainAt(e.Place, "write it as 10.0.0.0/8 or 2001:db8::/32", "offload.except: %q is not a prefix", e.Value)
			continue
		}
		t.Except = append(t.Except, to.Masked().String())
	}
	d.Declare("offload", k.Fields, t)
}

// names returns the links of a key, each once.
func names(d *policy.Draft, key string, all []yamlfile.Text) (list []string) {
	for _, n := range all {
		switch {
		case !d.Device(n, "offload."+key): // reports the mistake
		case slices.Contains(list, n.Value):
			d.ComplainAt(n.Place, "remove one of them", "offload.%s: %s is named twice", key, n.Value)
		default:
			list = append(list, n.Value)
		}
	}
	return list
}

// DeviceNames returns the devices of From and To.
func (t *Treatment) DeviceNames() []string { return slices.Concat(t.From, t.To) }

// WithDeviceNames returns a copy with the kernel's names of the devices.
func (t *Treatment) WithDeviceNames(now func(string) string) policy.Treatment {
	renamed := *t
	renamed.From, renamed.To = slices.Clone(t.From), slices.Clone(t.To)
	for _, list := range [][]string{renamed.From, renamed.To} {
		for i := range list {
			list[i] = now(list[i])
		}
	}
	return &renamed
}
