// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"weir/core/engine"
	"weir/core/match"
	"weir/core/policy"
	"weir/internal/fault"
)

// Owner is the owner of the scopes.
const Owner = "cni"

// Attachment identifies a device of a container, by the plugin's environment.
type Attachment struct {
	ContainerID, Netns, IfName string
	Args                       string // CNI_ARGS
}

// id identifies the attachment among those of all networks. Names and IDs contain no slash.
func (a Attachment) id(network string) string {
	return strings.Join([]string{network, a.ContainerID, a.IfName}, "/")
}

// Add limits an attachment, or changes its limit. Without a limit in the configuration it removes
// one.
func Add(e *engine.Engine, c Config, a Attachment) error {
	if !c.Limited() {
		return Delete(e, c, a)
	}
	want, err := wanted(e, c, a)
	if err != nil {
		return err
	}
	_, err = e.EditOwned(Owner, func(own []engine.OwnedScope) []engine.OwnedScope {
		own = without(own, want.Owner.ID)
		if slices.ContainsFunc(own, func(s engine.OwnedScope) bool { return s.Name == want.Name }) {
			want.Name = "cni/" + want.Owner.ID
		}
		return append(own, want)
	})
	return err
}

// Delete removes the limit of an attachment. A missing limit, device or namespace is no error.
func Delete(e *engine.Engine, c Config, a Attachment) error {
	if e.Unused() {
		return nil
	}
	_, err := e.EditOwned(Owner, func(own []engine.OwnedScope) []engine.OwnedScope { return without(own, a.id(c.Network)) })
	return err
}

// Collect removes the limits of all attachments of the network that are not valid.
func Collect(e *engine.Engine, c Config) error {
	if e.Unused() {
		return nil
	}
	keep := map[string]bool{}
	for _, v := range c.Valid {
		keep[Attachment{ContainerID: v.ContainerID, IfName: v.IfName}.id(c.Network)] = true
	}
	_, err := e.EditOwned(Owner, func(own []engine.OwnedScope) []engine.OwnedScope {
		return slices.DeleteFunc(own, func(s engine.OwnedScope) bool {
			return strings.HasPrefix(s.Owner.ID, c.Network+"/") && !keep[s.Owner.ID]
		})
	})
	return err
}

const tryAgain = "delete the container and create it again"

// Check returns an error unless the attachment has the limit of the configuration.
func Check(e *engine.Engine, c Config, a Attachment) error {
	status, err := e.Status()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(status.Scopes, func(s engine.ScopeStatus) bool {
		return s.Owner != nil && s.Owner.Name == Owner && s.Owner.ID == a.id(c.Network)
	})
	switch {
	case at < 0 && !c.Limited():
		return nil
	case at < 0:
		return fault.New(fault.Failed, tryAgain, "%s of %s has no limit", a.IfName, nameOf(a))
	case !c.Limited():
		return fault.New(fault.Failed, tryAgain, "%s of %s has a limit, and its configuration none", a.IfName, nameOf(a))
	}
	have := status.Scopes[at]
	want, err := wanted(e, c, a)
	if err != nil {
		return err
	}
	switch {
	case have.Owner.Key != want.Owner.Key:
		return fault.New(fault.Failed, tryAgain, "the limit of %s of %s is at %s, and its traffic at %s", a.IfName, nameOf(a), have.Owner.Key, want.Owner.Key)
	case !reflect.DeepEqual(have.Treatments, want.Treatments):
		return fault.New(fault.Failed, tryAgain, "%s of %s has the limit %s, and its configuration %s", a.IfName, nameOf(a), have.Summary(), want.Summary())
	case have.State != "enforced" && !strings.HasPrefix(have.State, "replaced by "):
		return fault.New(fault.Failed, "run weir status", "the limit of %s of %s is not in place: %s", a.IfName, nameOf(a), have.State)
	}
	return nil
}

// Status returns the reason why this host cannot limit containers, or nil.
func Status(e *engine.Engine, c Config) error {
	selector, probe := "interface: weir-cni-probe", Rate{Bits: 1_000_000}
	if c.Mode == Police {
		selector = "netns: weir-cni-probe"
	}
	s, err := c.scope(e.Language, selector, probe, probe)
	if err != nil {
		return err
	}
	s.Name = "cni/status"
	return e.CanHold(s)
}

// wanted returns the scope of an attachment.
func wanted(e *engine.Engine, c Config, a Attachment) (engine.OwnedScope, error) {
	cookie, err := cookieOf(a.Netns)
	if err != nil {
		return engine.OwnedScope{}, err
	}
	owner := engine.Owner{Name: Owner, ID: a.id(c.Network), For: nameOf(a)}
	var s policy.Scope
	if c.Mode == Police {
		owner.Key = match.OfNetns(cookie)
		s, err = c.scope(e.Language, fmt.Sprintf("netns: %q", a.Netns), c.Egress, c.Ingress)
	} else {
		end, failed := hostEnd(a)
		if failed != nil {
			return engine.OwnedScope{}, failed
		}
		if c.Egress.Bits > 0 {
			if err := filtered(end.Name, e.DevicePins()); err != nil {
				return engine.OwnedScope{}, err
			}
		}
		owner.Key, owner.Covers = match.OfInterface(end.Index), []match.Key{match.OfNetns(cookie)}
		s, err = c.scope(e.Language, fmt.Sprintf("interface: %q", end.Name), c.Ingress, c.Egress)
	}
	s.Name = "cni/" + short(a.ContainerID) + "/" + a.IfName
	return engine.OwnedScope{Scope: s, Owner: owner}, err
}

func without(own []engine.OwnedScope, id string) []engine.OwnedScope {
	return slices.DeleteFunc(own, func(s engine.OwnedScope) bool { return s.Owner.ID == id })
}
