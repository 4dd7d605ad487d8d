package sim

import (
	"slices"
	"strings"
)

const defaultUser = "default"

// user is who may do what.
type user struct {
	name      string
	enabled   bool
	open      bool // needs no password
	passwords []string
	keys      []keyRule
	channels  []string // patterns
	orders    []order
	known     map[*command]bool // what orders say, as far as it was asked
	mighty    bool              // may do everything
}

// keyRule is a pattern of keys that may be read, written or both.
type keyRule struct {
	pattern     string
	read, write bool
}

var everyKey = keyRule{"*", true, true}

// order allows or forbids commands: the last one about a command counts.
type order struct {
	allow bool
	what  string // get, script|load, @read
}

func newDefaultUser(password string) *user {
	u := &user{name: defaultUser}
	rules := []string{"on", "nopass", "~*", "&*", "+@all"}
	if password != "" {
		rules[1] = ">" + password
	}
	for _, rule := range rules {
		u.rule(rule)
	}
	return u
}

type denial uint8

const (
	allowed denial = iota
	deniedCommand
	deniedKey
	deniedChannel
)

// text is the refusal of a command that a connection sent, in the words of the server's version.
func (d denial) text(cmd *command, u *user, version int) string {
	switch {
	case version >= 8:
		return "NOPERM " + d.since72(cmd, u)
	case d == deniedKey:
		return "NOPERM this user has no permissions to access one of the keys used as arguments"
	case d == deniedChannel:
		return "NOPERM this user has no permissions to access one of the channels used as arguments"
	case version < 7:
		return "NOPERM this user has no permissions to run the '" + cmd.name + "' command or its subcommand"
	}
	return "NOPERM this user has no permissions to run the '" + cmd.name + "' command"
}

// since72 is what Redis 7.2 and later, and Valkey, say of a denial.
func (d denial) since72(cmd *command, u *user) string {
	switch d {
	case deniedKey:
		return "No permissions to access a key"
	case deniedChannel:
		return "No permissions to access a channel"
	}
	return "User " + u.name + " has no permissions to run the '" + cmd.name + "' command"
}

// inScript is the refusal of a command that a script called.
func (d denial) inScript(cmd *command, u *user, version int) string {
	if version >= 8 {
		return "ERR ACL failure in script: " + d.since72(cmd, u)
	}
	switch d {
	case deniedKey:
		return "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
	case deniedChannel:
		return "ERR The user executing the script can't publish to the channel mentioned in the command"
	}
	return "ERR The user executing the script can't run this command or subcommand"
}

// refuses returns why the user may not send a command, or allowed.
func (u *user) refuses(cmd *command, args []string) denial {
	if u.mighty {
		return allowed
	}
	if !u.may(cmd) {
		return deniedCommand
	}
	found := allowed
	reading := cmd.flags&reads != 0 || cmd.name == "set" && len(args) > 3 && slices.ContainsFunc(args[3:], isGet)
	cmd.keyNames(args, func(key string) bool {
		if !u.mayTouch(key, reading, cmd.flags&changes != 0) {
			found = deniedKey
		}
		return found == allowed
	})
	if found != allowed || cmd.flags&onChannels == 0 {
		return found
	}
	channels := args[1:]
	if strings.HasSuffix(cmd.name, "publish") {
		channels = channels[:min(1, len(channels))]
	}
	for _, channel := range channels {
		if !u.mayHear(channel, cmd.flags&onPatterns != 0) {
			return deniedChannel
		}
	}
	return allowed
}

// isGet is for SET, which reads with this option.
func isGet(option string) bool { return strings.EqualFold(option, "GET") }

func (u *user) may(cmd *command) bool {
	if may, ok := u.known[cmd]; ok {
		return may
	}
	may := false
	for _, o := range u.orders {
		if o.covers(cmd) {
			may = o.allow
		}
	}
	u.known[cmd] = may
	return may
}

// covers reports whether an order is about a command. Of the categories only some are there.
func (o order) covers(cmd *command) bool {
	family, _, _ := strings.Cut(cmd.name, "|")
	switch o.what {
	case "@all":
		return true
	case "@write":
		return cmd.flags&write != 0
	case "@read":
		return cmd.first > 0 && cmd.flags&write == 0 || slices.Contains([]string{"dbsize", "keys", "scan"}, cmd.name)
	case "@pubsub":
		return cmd.flags&onChannels != 0 || family == "pubsub" || strings.HasSuffix(cmd.name, "unsubscribe")
	case "@scripting":
		return cmd.counted > 0 || family == "script"
	}
	return o.what == cmd.name || o.what == family
}

func (u *user) mayTouch(key string, reading, changing bool) bool {
	return slices.ContainsFunc(u.keys, func(r keyRule) bool {
		return (r.read || !reading) && (r.write || !changing) && matches(r.pattern, key)
	})
}

func (u *user) mayHear(channel string, isPattern bool) bool {
	return slices.ContainsFunc(u.channels, func(pattern string) bool {
		return pattern == "*" || isPattern && pattern == channel || !isPattern && matches(pattern, channel)
	})
}

// rule applies one word of ACL SETUSER. It returns false for one that is not known here.
func (u *user) rule(word string) bool {
	switch word {
	case "on", "off":
		u.enabled = word == "on"
	case "nopass":
		u.open, u.passwords = true, nil
	case "resetpass":
		u.open, u.passwords = false, nil
	case "allkeys":
		return u.rule("~*")
	case "resetkeys":
		u.keys = nil
	case "allchannels":
		return u.rule("&*")
	case "resetchannels":
		u.channels = nil
	case "allcommands":
		return u.rule("+@all")
	case "nocommands":
		return u.rule("-@all")
	case "reset":
		*u = user{name: u.name}
	default:
		if !u.ruleOf(word) {
			return false
		}
	}
	u.settle()
	return true
}

// ruleOf applies a word that opens with a sign.
func (u *user) ruleOf(word string) bool {
	if len(word) < 2 {
		return false
	}
	sign, rest := word[0], word[1:]
	switch {
	case sign == '>':
		u.open, u.passwords = false, append(u.passwords, rest)
	case sign == '<':
		u.passwords = slices.DeleteFunc(u.passwords, func(p string) bool { return p == rest })
	case (sign == '~' || sign == '%') && slices.Contains(u.keys, everyKey),
		sign == '&' && slices.Contains(u.channels, "*"):
		return word == "~*" || word == "&*" // nothing can be added to all there is
	case word == "~*":
		u.keys = []keyRule{everyKey}
	case word == "&*":
		u.channels = []string{"*"}
	case sign == '~':
		u.keys = append(u.keys, keyRule{rest, true, true})
	case sign == '%':
		how, pattern, ok := strings.Cut(rest, "~")
		how = strings.ToUpper(how)
		if !ok || how == "" || strings.Trim(how, "RW") != "" {
			return false
		}
		u.keys = append(u.keys, keyRule{pattern, strings.Contains(how, "R"), strings.Contains(how, "W")})
	case sign == '&':
		u.channels = append(u.channels, rest)
	case (sign == '+' || sign == '-') && knownOrder(rest):
		if rest = strings.ToLower(rest); rest == "@all" {
			u.orders = nil
		}
		u.orders = append(u.orders, order{sign == '+', rest})
	default:
		return false
	}
	return true
}

func knownOrder(what string) bool {
	switch what = strings.ToLower(what); what {
	case "@all", "@write", "@read", "@pubsub", "@scripting":
		return true
	}
	name, sub, nested := strings.Cut(what, "|")
	cmd := commands[name]
	return cmd != nil && (!nested || cmd.subs[sub] != nil)
}

// settle derives what is asked at every command.
func (u *user) settle() {
	u.known = map[*command]bool{}
	u.mighty = len(u.orders) == 1 && u.orders[0] == order{true, "@all"} &&
		slices.Contains(u.keys, everyKey) && slices.Contains(u.channels, "*")
}
