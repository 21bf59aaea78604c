// SPDX-License-Identifier: Apache-2.0

// Package serve binds the instrument to the IETF model of network testers
// (draft-ietf-bmwg-network-tester-cfg): it translates configurations into setups and counters into
// state. The NETCONF server on top knows no tester, and the instrument below knows no YANG.
package serve

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/netconf/rpcerr"
	"weir/netconf/schema"
	"weir/netconf/tree"
	"weir/netconf/xmltree"
	"weir/tester/instrument"
)

// Device is the tester behind a NETCONF server.
type Device struct {
	Set        *schema.Set
	model      *model
	instrument *instrument.Instrument
	log        *slog.Logger
	started    time.Time

	mu     sync.Mutex // guards active and latest
	active *translation
	latest *translation // of the configuration that Check has seen last
}

// NewDevice loads a model for an instrument. startup adds the feature of that datastore.
func NewDevice(i *instrument.Instrument, name string, startup bool, log *slog.Logger) (*Device, error) {
	idle := true
	for _, p := range i.Ports() {
		idle = idle && p.Speed > 0
	}
	set, m, err := load(name, startup, idle)
	if err != nil {
		return nil, err
	}
	return &Device{Set: set, model: m, instrument: i, log: log, started: time.Now()}, nil
}

func number(n *tree.Node) uint64 { return schema.Uint(n.Value.Text) }

// translate reuses parts of the active and of the last checked configuration.
func (d *Device) translate(config *tree.Node) (*translation, *rpcerr.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := &translation{generators: map[*tree.Node]*instrument.Generator{}, analyzers: map[*tree.Node]*instrument.Analyzer{}}
	for _, t := range []*translation{d.active, d.latest} {
		if t == nil {
			continue
		}
		for n, g := range t.generators {
			known.generators[n] = g
		}
		for n, a := range t.analyzers {
			known.analyzers[n] = a
		}
	}
	t, err := d.model.translate(config, known)
	if err == nil {
		d.latest = t
	}
	return t, err
}

// Check implements server.Device.
func (d *Device) Check(_ context.Context, config *tree.Node) *rpcerr.Error {
	t, err := d.translate(config)
	if err != nil {
		return err
	}
	if r := d.instrument.Check(t.setups); r != nil {
		return d.model.rejected(config, r)
	}
	return nil
}

// Apply implements server.Device.
func (d *Device) Apply(ctx context.Context, _, config *tree.Node) *rpcerr.Error {
	t, err := d.translate(config)
	if err != nil {
		return err
	}
	if err := d.instrument.Apply(ctx, t.setups); err != nil {
		if r, is := err.(*instrument.Rejection); is {
			return d.model.rejected(config, r)
		}
		return rpcerr.New(rpcerr.Failed, "%s", err)
	}
	d.mu.Lock()
	d.active = t
	d.mu.Unlock()
	return nil
}

// State implements server.Device.
func (d *Device) State(_ context.Context, config *tree.Node, wanted func(name string) bool) (*tree.Node, error) {
	return d.state(config, wanted)
}

// Initial returns the datastore of a first start: the rights of the groups admin, operator and
// viewer.
func Initial(set *schema.Set) (*tree.Node, error) {
	x, err := xmltree.Parse([]byte(rights), xmltree.Limits{})
	if err != nil {
		return nil, fmt.Errorf("read initial rights: %w", err)
	}
	root, errs := tree.Edit(set, tree.Root(set), x, tree.MergeIn, false)
	if len(errs) > 0 {
		return nil, fmt.Errorf("read initial rights: %w", errs[0])
	}
	return root, nil
}

// WithoutGenerators removes the generators of a configuration: traffic from the startup datastore
// waits for a commit.
func WithoutGenerators(root *tree.Node) *tree.Node {
	return root.Map(func(n *tree.Node) *tree.Node {
		if n.Schema.Name == "traffic-generator" && n.Schema.Module.Name == generator {
			return nil
		}
		return n
	})
}

// rights are the rules of RFC 8341 for the groups of the users' file. Captured frames are readable
// by admin alone.
const rights = `<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0"><nacm xmlns="urn:ietf:params:xml:ns:yang:ietf-netconf-acm">
<rule-list><name>admin</name><group>admin</group>
 <rule><name>all</name><module-name>*</module-name><access-operations>*</access-operations><action>permit</action></rule>
</rule-list>
<rule-list><name>operator</name><group>operator</group>
 <rule><name>ports</name><path xmlns:if="urn:ietf:params:xml:ns:yang:ietf-interfaces">/if:interfaces</path>
  <access-operations>create update delete</access-operations><action>permit</action></rule>
</rule-list>
<rule-list><name>viewer</name><group>viewer</group>
 <rule><name>get</name><rpc-name>get</rpc-name><access-operations>exec</access-operations><action>permit</action></rule>
 <rule><name>get-config</name><rpc-name>get-config</rpc-name><access-operations>exec</access-operations><action>permit</action></rule>
 <rule><name>get-schema</name><rpc-name>get-schema</rpc-name><access-operations>exec</access-operations><action>permit</action></rule>
 <rule><name>create-subscription</name><rpc-name>create-subscription</rpc-name><access-operations>exec</access-operations><action>permit</action></rule>
 <rule><name>nothing-else</name><rpc-name>*</rpc-name><access-operations>exec</access-operations><action>deny</action></rule>
</rule-list></nacm></config>`
