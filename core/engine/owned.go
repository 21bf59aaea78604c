// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"weir/core/match"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/fault"
	"weir/kernel/bpffs"
)

/*
 * Scopes come from the policy file, or from an owner such as the CNI plugin, which adds and removes
 * its own one by one. All are numbered, bound and applied together. An owned scope
 *
 *   - ends with its object: a later device with the same name is another object;
 *   - is set aside while a scope of the policy is bound to one of its keys, and returns afterwards;
 *   - survives an apply and a release of the policy, and ends with ReleaseAll.
 */

// Owner is the origin of a scope that no policy file lists.
type Owner struct {
	Name string `json:"name" doc:"Program that added the scope: cni."`
	ID   string `json:"id" doc:"The program's identifier of the scope."`
	For  string `json:"for,omitempty" doc:"Object that the scope limits, such as pod default/web."`
	// Key is the object at the time of the addition.
	Key match.Key `json:"key" doc:"Matched object; the scope ends with it."`
	// Covers lists further keys of the same traffic.
	Covers []match.Key `json:"covers,omitempty" doc:"Further keys of the same traffic: a scope of the policy that is bound to one replaces this scope."`
}

// OwnedScope is a scope of an owner. It has no parent.
type OwnedScope struct {
	policy.Scope
	Owner Owner
}

// covers reports whether a key is the scope's or covers its traffic.
func (s OwnedScope) covers(key match.Key) bool {
	return key.Kind != "" && (key == s.Owner.Key || slices.Contains(s.Owner.Covers, key))
}

// aside is an owned scope that is replaced by a scope of the policy.
type aside struct {
	OwnedScope
	By string // name of that scope
}

// isPolicy reports whether a scope is the policy's.
func (h held) isPolicy() bool { return h.Owner == nil }

// policyScopes returns the scopes of the policy in order.
func (s *state) policyScopes() (all []policy.Scope) {
	for _, h := range s.Scopes {
		if h.isPolicy() {
			all = append(all, h.Scope)
		}
	}
	return all
}

// owned returns the scopes of all owners, by name.
func (s *state) owned() (all []OwnedScope) {
	for _, h := range s.Scopes {
		if !h.isPolicy() {
			all = append(all, OwnedScope{h.Scope, *h.Owner})
		}
	}
	for _, a := range s.Aside {
		all = append(all, a.OwnedScope)
	}
	slices.SortFunc(all, func(a, b OwnedScope) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// empty reports whether a state has neither scopes nor items.
func (s *state) empty() bool { return len(s.Scopes)+len(s.Aside)+len(s.Host) == 0 }

// place returns the object of an owned scope, or false if it is gone or another one.
func (s OwnedScope) place(look *selector.Host) (selector.Binding, bool, error) {
	bound, err := look.Bind(s.Selector)
	if fault.Of(err) == fault.Usage { // another file at the path of a network namespace
		return bound, false, nil
	}
	if err != nil {
		return bound, false, fmt.Errorf("scope %s: %w", s.Name, err)
	}
	return bound, bound.Missing == "" && bound.Key == s.Owner.Key, nil
}

// addOwned adds the owned scopes with an existing object to a state of a policy. number returns the
// number of a scope.
func (s *state) addOwned(all []OwnedScope, look *selector.Host, number func(name string) int) error {
	replaced := func(o OwnedScope) string {
		for _, h := range s.Scopes {
			if h.isPolicy() && slices.ContainsFunc(h.Bound.Keys(), o.covers) {
				return h.Name
			}
		}
		return ""
	}
	for _, o := range all {
		bound, there, err := o.place(look)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		if by := replaced(o); by != "" {
			s.Aside = append(s.Aside, aside{o, by})
			continue
		}
		s.Scopes = append(s.Scopes, held{Scope: o.Scope, Index: number(o.Name), Bound: bound, Owner: &o.Owner})
	}
	return nil
}

// Owned returns the scopes of an owner.
func (e *Engine) Owned(owner string) ([]OwnedScope, error) {
	have, err := e.store().read(current)
	if err != nil {
		return nil, err
	}
	return ownedBy(have.owned(), owner), nil
}

func ownedBy(all []OwnedScope, owner string) (own []OwnedScope) {
	for _, s := range all {
		if s.Owner.Name == owner {
			own = append(own, s)
		}
	}
	return own
}

// EditOwned replaces the scopes of an owner by the result of edit, which gets the present ones.
// Scopes with an object that is gone end too. After an error the former scopes are active.
func (e *Engine) EditOwned(owner string, edit func(own []OwnedScope) []OwnedScope) (Outcome, error) {
	s, err := e.openStore()
	if err != nil {
		return Outcome{}, err
	}
	defer s.close()
	if _, err := bpffs.Mount(e.PinDir); err != nil {
		return Outcome{}, err
	}
	have, recovered, err := e.recover(s)
	if err != nil {
		return Outcome{}, err
	}
	all := slices.DeleteFunc(have.owned(), func(o OwnedScope) bool { return o.Owner.Name == owner })
	next, err := e.nextWith(have, have.policyScopes(), have.Host, append(all, edit(ownedBy(have.owned(), owner))...))
	if err != nil {
		return Outcome{}, err
	}
	if next.NoPolicy = have.NoPolicy || have.Applied.IsZero(); next.NoPolicy && next.empty() {
		ended, err := e.endAll(s)
		return Outcome{Format: formatOutcome, Changed: ended, Recovered: recovered}, err
	}
	if !have.Applied.IsZero() {
		next.Applied = have.Applied
	}
	out, err := e.lead(s, have, next, recovered)
	if err == nil && !out.Changed { // the scopes that are set aside may differ
		err = s.write(current, next)
	}
	return out, err
}

// CanHold returns the reason why this host cannot apply a scope beside the active ones. The object
// of the scope need not exist.
func (e *Engine) CanHold(scope policy.Scope) error {
	have, err := e.store().read(current)
	if err != nil {
		return err
	}
	next, err := e.next(have, append(have.policyScopes(), scope), have.Host)
	if err != nil {
		return err
	}
	err = e.ready(next)
	for _, one := range unsupported(err) {
		if one.Scope == scope.Name {
			return one.Err
		}
	}
	return err
}

// releasePolicy ends the policy and keeps the owned scopes. kept is false without such scopes, or
// without a readable state.
func (e *Engine) releasePolicy(s *store) (released, kept bool, err error) {
	have, err := s.read(current)
	if err != nil || s.lock == nil || len(have.owned()) == 0 {
		return false, false, nil //nolint:nilerr // a release works without a readable state
	}
	defer func() {
		err = fault.Wrap(err, fault.Failed, "end the limits of containers too: weir release --all")
	}()
	if have, _, err = e.recover(s); err != nil {
		return false, true, err
	}
	next, err := e.nextWith(have, nil, nil, have.owned())
	if err != nil || next.empty() {
		return false, err != nil, err
	}
	next.Applied, next.NoPolicy = have.Applied, true
	if _, err := e.lead(s, have, next, false); err != nil {
		return false, true, err
	}
	return !have.NoPolicy, true, forgetController(e.StateDir)
}

// asideNotes returns the notes about the owned scopes that a policy sets aside.
func (s *state) asideNotes() (notes []string) {
	for _, a := range s.Aside {
		notes = append(notes, fmt.Sprintf("scope %s replaces the limit of %s, which %s added", a.By, cmp.Or(a.Owner.For, a.Name), a.Owner.Name))
	}
	return notes
}

// Unused reports whether no policy, owned scope or interrupted change exists.
func (e *Engine) Unused() bool {
	s := e.store()
	for _, name := range []string{current, journal} {
		if _, err := os.Stat(s.path(name)); !none(err) {
			return false
		}
	}
	return true
}
