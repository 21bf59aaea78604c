// SPDX-License-Identifier: Apache-2.0

package tester

import (
	"errors"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/tester/session"
	"weir/tester/spec"
)

// testerPorts opens the namespaces of a specification's ports.
type testerPorts struct {
	spec   *spec.Spec
	opened map[string]*netns.Namespace
}

func openPorts(s *spec.Spec) *testerPorts {
	return &testerPorts{spec: s, opened: map[string]*netns.Namespace{}}
}

func (p *testerPorts) namespace(name string) (*netns.Namespace, error) {
	if name == "" {
		return nil, nil
	}
	if ns, known := p.opened[name]; known {
		return ns, nil
	}
	ns, err := netns.Open(name)
	if err != nil {
		return nil, fault.New(fault.Usage, "run 'ip netns list' to see the network namespaces", "%w", err)
	}
	p.opened[name] = ns
	return ns, nil
}

// port is the session's port; elsewhere leaves it to another process.
func (p *testerPorts) port(name string, elsewhere bool) (session.Port, error) {
	if elsewhere {
		return session.Port{Name: name}, nil
	}
	described, _ := p.spec.Port(name)
	ns, err := p.namespace(described.Namespace)
	if err != nil {
		return session.Port{}, err
	}
	port := session.Port{Name: name, Namespace: ns, Device: described.Device, CPUs: described.CPUs}
	if described.Peer != "" {
		peer, err := p.namespace(described.PeerNamespace)
		if err != nil {
			return session.Port{}, err
		}
		port.Peer = &session.Port{Namespace: peer, Device: described.Peer}
	}
	return port, nil
}

// side selects the local ends of a specification.
type side struct{ sends, receives bool }

// config returns the session of a specification without options of flags.
func (p *testerPorts) config(here side) (session.Config, error) {
	s := p.spec
	c := session.Config{Name: s.Name, Straggle: s.Straggle}
	for _, d := range s.Directions {
		from, err := p.port(d.From, !here.sends)
		if err != nil {
			return c, err
		}
		to, err := p.port(d.To, !here.receives)
		if err != nil {
			return c, err
		}
		c.Directions = append(c.Directions, session.Direction{From: from, To: to, Schedule: d.Schedule})
	}
	return c, nil
}

func (p *testerPorts) close() error {
	var all []error
	for _, ns := range p.opened {
		all = append(all, ns.Close())
	}
	return errors.Join(all...)
}
