// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"fmt"
	"net/netip"
	"weir/internal/dscp"

	"weir/core/match"
	"weir/core/policy"
	"weir/internal/yamlfile"
)

const moduleName = "borders"

// sectionKeys is the module's section of a policy file.
type sectionKeys struct {
	Borders yamlfile.Map[*borderKeys] `yaml:"borders" doc:"Borders to other networks, by device name: set the class of incoming packets, and translate DSCPs."`
}

type borderKeys struct {
	yamlfile.Fields `yaml:"-"`
	From            yamlfile.Map[string] `yaml:"from" doc:"Class of incoming packets by source. Maps a prefix or address to a class, a DSCP (name or number), or 'keep' to leave the DSCP unchanged. The longest prefix among 'from' and 'to' decides; if both are equally long, 'from' applies."`
	To              yamlfile.Map[string] `yaml:"to" doc:"Class of incoming packets by destination, in the same form."`
	Translate       yamlfile.Map[string] `yaml:"translate" doc:"Classes with a different DSCP in the network beyond the device. Maps the DSCP in this network to the DSCP in the other, such as 'lbe: CS1'. Applies in both directions."`
	Shadow          bool                 `yaml:"shadow" doc:"Only count, without any effect on traffic."`
}

// maxRules bounds the prefixes of a border.
const maxRules = 65_536

func grammar() policy.Grammar {
	return policy.Grammar{Module: moduleName, Section: sectionKeys{}, Read: read}
}

func read(d *policy.Draft) {
	section, _ := d.Section.(*sectionKeys)
	if section == nil {
		return
	}
	for _, border := range section.Borders {
		if border.Value == nil || border.Value.Flawed() {
			continue
		}
		r := reader{d, border.Value, "borders." + border.Key.Value}
		t := r.treatment(border.Key)
		if d.Sound() {
			d.Declare("border "+border.Key.Value, border.Value.Fields, t)
		}
	}
}

// reader reads one border.
type reader struct {
	draft *policy.Draft
	keys  *borderKeys
	name  string
}

func (r reader) treatment(dev yamlfile.Text) *Treatment {
	k := r.keys
	r.draft.Device(dev, moduleName)
	if dev.Value == "lo" {
		r.draft.ComplainAt(dev.Place, "name the device that the other network is behind", "borders.lo: no network is behind loopback")
	}
	if len(k.From)+len(k.To)+len(k.Translate) == 0 {
		r.draft.ComplainAt(k.Self, "write from: {10.20.0.0/16: lbe}, or translate: {lbe: CS1}", "%s: it has nothing to do", r.name)
	}
	if n := len(k.From) + len(k.To); n > maxRules {
		r.draft.ComplainAt(k.Self, "put neighbours together", "%s: %d prefixes; the maximum is %d", r.name, n, maxRules)
	}
	return &Treatment{Device: dev.Value, From: r.rules("from", k.From), To: r.rules("to", k.To), Translate: r.pairs(), Shadow: k.Shadow}
}

// rules reads the classes of prefixes.
func (r reader) rules(side string, all yamlfile.Map[string]) (list []Rule) {
	seen := map[netip.Prefix]bool{}
	for _, pair := range all {
		prefix, err := parsePrefix(pair.Key.Value)
		if err != nil {
			r.draft.ComplainAt(pair.Key.Place, "write 10.20.0.0/16, 2001:db8::/32 or an address", "%s.%s: %q is neither a prefix nor an address", r.name, side, pair.Key.Value)
			continue
		}
		if masked := prefix.Masked(); masked != prefix {
			r.draft.ComplainAt(pair.Key.Place, "write "+masked.String()+", or the address alone", "%s.%s: %s has bits behind its length", r.name, side, pair.Key.Value)
		}
		prefix = match.OfPrefix(prefix).Prefix
		if seen[prefix] {
			r.draft.ComplainAt(pair.Key.Place, "leave one of them out", "%s.%s: %s is there twice", r.name, side, prefix)
		}
		seen[prefix] = true
		rule := Rule{Prefix: prefix, Class: pair.Value}
		if rule.Class != keep {
			if rule.DSCP, err = dscp.ParseDSCP(rule.Class); err != nil {
				r.draft.ComplainAt(pair.Key.Place, "", "%s.%s.%s: %v; or %s", r.name, side, pair.Key.Value, err, keep)
			}
		}
		list = append(list, rule)
	}
	return list
}

// parsePrefix reads a prefix or an address, which has no zone: the border is one device's.
func parsePrefix(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.ParsePrefix(fmt.Sprintf("%s/%d", address, address.BitLen()))
}

// pairs reads the translations. Both sides must be unique, so that each direction reverts the
// other.
func (r reader) pairs() (list []Pair) {
	here, beyond := map[dscp.DSCP]bool{}, map[dscp.DSCP]bool{}
	for _, pair := range r.keys.Translate {
		place, path := pair.Key.Place, r.name+".translate"
		a, err := dscp.ParseDSCP(pair.Key.Value)
		if err != nil {
			r.draft.ComplainAt(place, "", "%s: %v", path, err)
			continue
		}
		b, err := dscp.ParseDSCP(pair.Value)
		if err != nil {
			r.draft.ComplainAt(place, "", "%s.%s: %v", path, pair.Key.Value, err)
			continue
		}
		switch {
		case a == b:
			r.draft.ComplainAt(place, "remove it: other DSCPs stay unchanged", "%s: %s is the same there", path, pair.Key.Value)
		case here[a], beyond[b]:
			r.draft.ComplainAt(place, "leave one of them out", "%s: %s: %s: of two classes one side would know one DSCP", path, pair.Key.Value, pair.Value)
		}
		here[a], beyond[b] = true, true
		list = append(list, Pair{Here: a, Beyond: b})
	}
	return list
}
