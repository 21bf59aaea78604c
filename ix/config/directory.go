// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"weir/internal/yamlfile"
	"weir/ix/choose"
)

// sponsors converts the sponsors.
func (r *reader) sponsors() (all []Sponsor) {
	if len(r.Sponsors) == 0 && r.Has("sponsors") && !r.file.Flawed("sponsors") {
		r.Add(r.At("sponsors"), "add one, as in docs/guides/exchange.md", "sponsors: there is none")
	}
	members := names(r.Members)
	ports := 0
	for _, e := range r.Sponsors {
		path := "sponsors." + e.Key.Value
		r.name("sponsors", e.Key)
		k := e.Value
		if k == nil {
			if !r.file.Flawed("sponsors") {
				r.Add(e.Key.Place, "", "%s: as and ports are missing", path)
			}
			continue
		}
		s := Sponsor{Name: e.Key.Value, AS: r.as(k.Fields, path, k.AS), Drained: k.Drained, Only: r.known(path+".only", "member", k.Only, members)}
		if k.Has("only") && len(k.Only) == 0 && !k.Flawed("only") {
			r.Add(k.At("only"), "name members, or remove the key", "%s.only: the list is empty, so nobody has consent", path)
		}
		if len(k.Ports) == 0 && k.Has("ports") && !k.Flawed("ports") {
			r.Add(k.At("ports"), "add a port", "%s.ports: there is none", path)
		}
		for _, port := range k.Ports {
			s.Ports = append(s.Ports, r.port(s.Name, port))
		}
		ports += len(s.Ports)
		all = append(all, s)
	}
	if ports > choose.MaxPorts {
		r.Add(r.At("sponsors"), "", "sponsors: %d ports, more than %d", ports, choose.MaxPorts)
	}
	return all
}

func (r *reader) port(sponsor string, e yamlfile.Pair[*portKeys]) Port {
	path := fmt.Sprintf("sponsors.%s.ports.%s", sponsor, e.Key.Value)
	r.name(fmt.Sprintf("sponsors.%s.ports", sponsor), e.Key)
	p := Port{Name: e.Key.Value}
	k := e.Value
	if k == nil {
		r.Add(e.Key.Place, "", "%s: addresses and rate are missing", path)
		return p
	}
	p.Place, p.Drained = k.Place, k.Drained
	if len(k.Addresses) > maxAddresses {
		r.Add(k.At("addresses"), "", "%s.addresses: %d addresses, more than %d", path, len(k.Addresses), maxAddresses)
	}
	p.Addresses = r.hosts(k.Fields, k.Addresses, path, fmt.Sprintf("port %s/%s", sponsor, p.Name))
	if k.Rate != nil && !k.Flawed("rate") {
		if p.Rate = *k.Rate; p.Rate < minRate || p.Rate > maxRate {
			r.Add(k.At("rate"), "write the port's rate, as in 10Gbit", "%s.rate: %s is outside %s to %s", path, p.Rate, minRate, maxRate)
		}
	}
	return p
}

// members converts the members.
func (r *reader) members(paths int) (all []Member) {
	if len(r.Members) == 0 && r.Has("members") && !r.file.Flawed("members") {
		r.Add(r.At("members"), "add one, as in docs/guides/exchange.md", "members: there is none")
	}
	sponsors := names(r.Sponsors)
	for _, e := range r.Members {
		path := "members." + e.Key.Value
		r.name("members", e.Key)
		k := e.Value
		if k == nil {
			if !r.file.Flawed("members") {
				r.Add(e.Key.Place, "", "%s: as and addresses are missing", path)
			}
			continue
		}
		m := Member{Name: e.Key.Value, AS: r.as(k.Fields, path, k.AS), Place: k.Place, Paths: paths, Small: k.Small,
			Addresses: r.hosts(k.Fields, k.Addresses, path, "member "+e.Key.Value), Without: r.known(path+".without", "sponsor", k.Without, sponsors)}
		m.Password, m.TTLSecurity = r.password(path, k.Password), k.TTLSecurity
		if k.Paths != nil {
			m.Paths = r.paths(k.Fields, path, *k.Paths)
		}
		all = append(all, m)
	}
	return all
}
