// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"weir/internal/atomicfile"
	"weir/internal/fault"
)

// user is an entry of users.json.
type user struct {
	Key  string `json:"key"`            // public NKEY
	Host string `json:"host,omitempty"` // "" for an operator
}

// permissions of a user of a fleet.
func (u user) permissions(fleet string) *server.Permissions {
	inbox := []string{"_INBOX.>"}
	if u.Host == "" {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{requests + fleet}}, Subscribe: &server.SubjectPermission{Allow: inbox}}
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{reports + fleet + "." + token(u.Host)}},
		Subscribe: &server.SubjectPermission{Allow: []string{grants + fleet + "." + token(u.Host)}},
	}
}

func readUsers(dir string) (all []user, err error) {
	path := filepath.Join(dir, usersFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read users of the fleet: %w", err)
	}
	return parseUsers(dir, text)
}

func parseUsers(dir string, text []byte) (all []user, err error) {
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fault.New(fault.Usage, "restore the file, or remove it and enroll all hosts again", "users of the fleet: %s: %v", filepath.Join(dir, usersFile), err)
	}
	return all, nil
}

func writeUsers(dir string, all []user) error {
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, usersFile), 0o600, append(text, '\n'))
}

// Enroll makes the credentials of a host, or of an operator if host is "". Earlier credentials of
// the same host end. A running server reads the change within a second.
func Enroll(dir, fleet, host string) (Credentials, error) {
	if host != "" {
		if err := CheckName("host", host); err != nil {
			return Credentials{}, err
		}
	}
	ca, err := os.ReadFile(filepath.Join(dir, caFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Credentials{}, fault.New(fault.Usage, "start 'weir fleet serve' there first, or name its folder with --dir", "%s is not the folder of a fleet's server", dir)
	}
	if err != nil {
		return Credentials{}, err
	}
	all, err := readUsers(dir)
	if err != nil {
		return Credentials{}, err
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return Credentials{}, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return Credentials{}, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return Credentials{}, err
	}
	all = slices.DeleteFunc(all, func(u user) bool { return u.Host == host && host != "" })
	if err := writeUsers(dir, append(all, user{public, host})); err != nil {
		return Credentials{}, err
	}
	return Credentials{Fleet: fleet, Host: host, Seed: string(seed), CA: string(ca)}, nil
}

// Expel ends the credentials of a host. It returns false if the host has none.
func Expel(dir, host string) (bool, error) {
	all, err := readUsers(dir)
	if err != nil {
		return false, err
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(u user) bool { return u.Host == host })
	if len(rest) == len(all) {
		return false, nil
	}
	return true, writeUsers(dir, rest)
}
