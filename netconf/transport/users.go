// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/rsa"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/ssh"

	"weir/internal/fault"
	"weir/internal/yamlfile"
)

// user is one account.
type user struct {
	group    string
	keys     [][]byte // wire format
	password []byte   // bcrypt hash; nil without a password
}

// Users are the accounts of a file. They are read-only.
type Users struct{ byName map[string]user }

// Names lists the accounts.
func (u *Users) Names() []string {
	names := make([]string, 0, len(u.byName))
	for name := range u.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

type usersFile struct {
	yamlfile.Fields `yaml:"-"`
	Users           yamlfile.Map[*userFile] `yaml:"users,required" doc:"Accounts by name."`
}

type userFile struct {
	yamlfile.Fields `yaml:"-"`
	Group           string          `yaml:"group,required" enum:"admin,operator,viewer" doc:"Rights at the start."`
	Keys            []yamlfile.Text `yaml:"keys" doc:"Public keys in the form of authorized_keys."`
	Password        yamlfile.Text   `yaml:"password" doc:"bcrypt hash of a password."`
}

const minRSA = 2048 // bits

// privateFile rejects a file that other users can read or write.
func privateFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fault.Wrap(fmt.Errorf("open %s: %w", path, err), fault.Usage, "name a file that exists")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fault.New(fault.Usage, "run 'chmod 600 "+path+"'", "%s has mode %04o: users other than its owner may access it", path, info.Mode().Perm())
	}
	return nil
}

// ReadUsers reads and checks the accounts of a file.
func ReadUsers(path string) (*Users, error) {
	if err := privateFile(path); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read users: %w", err)
	}
	return parseUsers(path, text)
}

func parseUsers(path string, text []byte) (*Users, error) {
	parsed, err := yamlfile.Parse(path, text)
	if err != nil {
		return nil, err
	}
	var file usersFile
	var problems yamlfile.Problems
	parsed.Decode(&file, nil, &problems)
	users := &Users{byName: map[string]user{}}
	for _, entry := range file.Users {
		if entry.Value != nil {
			users.byName[entry.Key.Value] = account(entry.Key, entry.Value, &problems)
		}
	}
	return users, problems.Err("correct the accounts at the places named")
}

func account(name yamlfile.Text, from *userFile, problems *yamlfile.Problems) user {
	u := user{group: from.Group}
	for _, line := range from.Keys {
		key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line.Value))
		switch {
		case err != nil:
			problems.Add(line.Place, "write the line of a .pub file", "no public key: %v", err)
		case len(options) > 0:
			problems.Add(line.Place, "leave the options out", "options of keys are not supported")
		default:
			if complaint := weakness(key); complaint != "" {
				problems.Add(line.Place, "use an ed25519, ECDSA or RSA key of 2048 bits or more", "%s", complaint)
			}
			u.keys = append(u.keys, key.Marshal())
		}
	}
	if hash := from.Password; hash.Value != "" {
		if _, err := bcrypt.Cost([]byte(hash.Value)); err != nil {
			problems.Add(hash.Place, "write a hash as of 'htpasswd -nB NAME'", "the password is no bcrypt hash")
		} else if bcrypt.CompareHashAndPassword([]byte(hash.Value), nil) == nil {
			problems.Add(hash.Place, "choose a password", "the password is empty")
		}
		u.password = []byte(hash.Value)
	}
	if len(from.Keys) == 0 && from.Password.Value == "" {
		problems.Add(name.Place, "add keys or a password", "user %s has neither keys nor a password", name.Value)
	}
	return u
}

// weakness describes a key that is not accepted; "" is none.
func weakness(key ssh.PublicKey) string {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return ""
	case ssh.KeyAlgoRSA:
		if crypto, is := key.(ssh.CryptoPublicKey); is {
			if k, is := crypto.CryptoPublicKey().(*rsa.PublicKey); is && k.N.BitLen() < minRSA {
				return fmt.Sprintf("the RSA key has %d bits", k.N.BitLen())
			}
		}
		return ""
	}
	return "keys of type " + strings.TrimSpace(key.Type()) + " are not supported"
}
