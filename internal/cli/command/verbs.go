package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
)

// verb is a word of other tools that is not the name of a command.
type verb struct {
	runs string   // the only command that the word means; empty: the answer lists means
	note string   // what weir does not do, or where it is done
	use  []string // commands that the word may mean, with their flags
}

// one is the verb with one meaning.
func one(runs string) verb { return verb{runs: runs} }

// anyOf is the verb with several meanings, or with one that changes too much to guess.
func anyOf(use ...string) verb { return verb{use: use} }

// verbs returns the words of other tools: after the name of a group, or alone.
func verbs() map[string]verb {
	list := anyOf("pool list", "node list", "app list", "signal ps", "release list", "context list")
	show := anyOf("status", "node status", "app status", "pool list", "node list", "app list")
	remove := anyOf("app delete", "pool drain", "release yank")
	change := anyOf("app set", "app apply", "config validate")
	noShell := verb{note: "weir opens no shell on a machine", use: []string{"app logs", "node status"}}
	capacity := verb{note: "the limits of a pool are scaling_limits of its file", use: []string{"pool target", "offset"}}
	poolFile := verb{note: "a pool is a file CLUSTER/POOL.yaml in the configuration folder", use: []string{"config show", "config validate", "bootstrap"}}
	end := anyOf("pool drain", "node recover")
	repair := anyOf("node recover")
	cordon := verb{note: "no command cordons a node without draining it", use: []string{"pool drain", "node pause"}}
	keepsRunning := verb{note: "bootstrap keeps the signals of the pool file running", use: []string{"signal restart", "config show"}}
	all := map[string]verb{
		"apply": one("app apply"), "logs": one("app logs"), "log": one("app logs"), "drain": one("pool drain"), "node drain": one("pool drain"),
		"stop": one("app stop"), "start": one("app start"), "rollback": one("app rollback"), "retry": one("app retry"), "crashes": one("app crashes"),
		"target": one("pool target"), "roll": anyOf("pool roll"), "rotate": anyOf("pool rotate"), "groups": one("pool groups"),

		"top": anyOf("status --watch", "node list --watch", "app status --watch"), "ps": anyOf("app status", "signal ps", "node list"),
		"scale": anyOf("app scale", "pool target", "offset"), "restart": anyOf("app restart", "signal restart", "node recover"),
		"deploy": change, "run": anyOf("app set", "signal run", "up"), "rollout": anyOf("app status", "app history", "app rollback", "app restart"),
		"edit": change, "set": change, "update": change, "create": change, "add": change, "new": anyOf("app set", "signal init"), "use": anyOf("context use"),
		"exec": noShell, "ssh": noShell, "attach": noShell, "app exec": noShell, "app ssh": noShell, "node ssh": noShell, "node exec": noShell,
		"cordon": cordon, "uncordon": cordon, "node cordon": cordon, "node uncordon": cordon,
		"kill": anyOf("app stop", "pool drain"), "terminate": end, "reboot": repair, "replace": anyOf("node recover", "pool roll", "pool rotate"), "repair": repair, "heal": repair,
		"health": anyOf("node status", "doctor"), "info": anyOf("status", "doctor"), "check": anyOf("doctor", "config validate", "node check", "state check"),
		"watch": anyOf("status --watch", "events --follow"), "monitor": anyOf("status --watch", "web"), "dashboard": anyOf("web"), "ui": anyOf("web"),
		"history": anyOf("explain --since 24h --changed", "events --since 24h", "app history", "node history"), "why": anyOf("explain"), "why-not": anyOf("explain --why-not up", "explain --why-not down"), "app why": anyOf("app explain"), "app why-not": anyOf("app explain"), "node why": anyOf("node status"), "problems": anyOf("status", "doctor"),
		"freeze": anyOf("pause"), "suspend": anyOf("pause"), "disable": anyOf("pause"), "stop-scaling": anyOf("pause"), "unpause": anyOf("resume"), "continue": anyOf("resume"), "enable": anyOf("resume"),
		"group":   anyOf("pool groups"),
		"cluster": anyOf("pool list", "doctor", "context list"), "login": anyOf("context use", "doctor"), "undo": anyOf("app rollback", "resume"),
		"upgrade": verb{note: "weir does not upgrade itself: its package does", use: []string{"version", "doctor"}},

		"aws": verb{note: "\"weir-local aws\" tries pools on AWS without AWS"},

		"node rm": end, "node delete": end, "node remove": end, "node terminate": end, "node kill": end,
		"node restart": repair, "node reboot": repair, "node replace": repair, "node repair": repair, "node logs": anyOf("app logs", "node evidence"), "node top": anyOf("node list --watch"),
		"node add": capacity, "node create": capacity, "node scale": capacity,
		"pool scale": capacity, "pool resize": capacity, "pool set": capacity, "pool create": poolFile, "pool add": poolFile, "pool edit": poolFile, "pool delete": poolFile, "pool rm": poolFile, "pool remove": poolFile,
		"pool nodes": anyOf("node list"), "pool restart": anyOf("pool roll"), "pool replace": anyOf("pool roll"),
		"app edit": anyOf("app set", "app apply"), "app run": anyOf("app set"), "app deploy": anyOf("app set", "app apply"), "app kill": anyOf("app stop", "app restart"), "app pause": anyOf("app stop", "pause"), "app top": anyOf("app status --watch"),
		"signal stop": keepsRunning, "signal kill": keepsRunning, "signal start": keepsRunning,
		"release unyank": verb{note: "a yank is permanent: publish a new version instead", use: []string{"release publish"}},
		"release rm":     anyOf("release yank"), "release delete": anyOf("release yank"), "release remove": anyOf("release yank"), "release push": anyOf("release publish"), "release create": anyOf("release publish"), "release pull": anyOf("release fetch"),
		"config set": poolFile, "config edit": poolFile, "config use-context": anyOf("context use"), "config get-contexts": anyOf("context list"),
		"context create": anyOf("context show"), "context add": anyOf("context show"), "metrics list": anyOf("metrics get"), "signal create": anyOf("signal init", "release publish"), "signal add": anyOf("signal init", "release publish"),
	}
	for _, word := range []string{"list", "ls"} {
		all[word] = list
	}
	for _, word := range []string{"get", "describe", "show"} {
		all[word] = show
	}
	for _, word := range []string{"rm", "delete", "remove"} {
		all[word] = remove
	}
	for _, noun := range []string{"pool", "node", "app", "release", "context"} {
		all[noun+"s"] = one(noun + " list")
	}
	all["signals"] = one("signal ps")
	return all
}

// translate returns a command line with the words of other tools replaced by commands. A word without one meaning is an
// error that lists commands. It changes nothing after the name of a command that has no commands below it.
func translate(root *cobra.Command, args []string) ([]string, error) {
	at := wordsOf(root, args)
	if len(at) == 0 || strings.HasPrefix(args[at[0]], "__") { // cobra's own, for completion
		return args, nil
	}
	words := make([]string, len(at))
	for i, n := range at {
		words[i] = args[n]
	}
	path, used := meant(root, words)
	if used == 0 {
		group, rest := descend(root, words)
		takesOther := strings.Contains(group.Use, " ") // beside the names of its commands
		if group.HasSubCommands() && !takesOther && len(rest) > 0 && group.Name() != "help" {
			return nil, Group(group, rest)
		}
		return args, nil
	}
	out := slices.Clone(args[:at[0]])
	out = append(out, path...)
	for i, arg := range args[at[0]:] {
		if !slices.Contains(at[:used], at[0]+i) {
			out = append(out, arg)
		}
	}
	return out, nil
}

// wordsOf returns the indices of the arguments that are neither flags nor values of flags, as cobra finds commands.
func wordsOf(root *cobra.Command, args []string) (at []int) {
	flags := root.PersistentFlags()
	bare := func(f *pflag.Flag) bool { return f != nil && f.NoOptDefVal != "" }
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return at
		case a == "-h" || a == "--help" || a == "-v" || a == "--version":
		case strings.HasPrefix(a, "--") && !strings.Contains(a, "=") && !bare(flags.Lookup(a[2:])), len(a) == 2 && a[0] == '-':
			i++
		case a != "" && a[0] != '-':
			at = append(at, i)
		}
	}
	return at
}

// below returns the command of a name or an alias.
func below(group *cobra.Command, word string) *cobra.Command {
	for _, c := range group.Commands() {
		if c.Name() == word || c.HasAlias(word) {
			return c
		}
	}
	return nil
}

// descend returns the command that words name, and the words after it.
func descend(root *cobra.Command, words []string) (*cobra.Command, []string) {
	for len(words) > 0 {
		next := below(root, words[0])
		if next == nil {
			break
		}
		root, words = next, words[1:]
	}
	return root, words
}

// meant returns the path of the command that the first words mean, and how many words it replaces; 0: none.
func meant(root *cobra.Command, words []string) (path []string, used int) {
	known := verbs()
	first := below(root, words[0])
	switch {
	case first != nil && len(words) == 1 && known[words[0]].runs != "": // nodes
		return strings.Fields(known[words[0]].runs), 1
	case first != nil && len(words) > 1 && below(first, words[1]) == nil:
		if runs := known[first.Name()+" "+words[1]].runs; runs != "" {
			return strings.Fields(runs), 2
		}
	case first == nil && len(words) > 1: // get nodes
		if noun := below(root, words[1]); noun != nil && noun.HasSubCommands() {
			return turned(noun, words)
		}
	}
	if runs := known[words[0]].runs; first == nil && runs != "" {
		return strings.Fields(runs), 1
	}
	return nil, 0
}

// turned returns the command of "VERB NOUN". Without a name after them, get and describe list.
func turned(noun *cobra.Command, words []string) (path []string, used int) {
	if slices.Contains([]string{"get", "describe", "show"}, words[0]) && len(words) == 2 {
		if list := cmp.Or(below(noun, "list"), below(noun, "show")); list != nil {
			return []string{noun.Name(), list.Name()}, 2
		}
	}
	if c := below(noun, words[0]); c != nil {
		return []string{noun.Name(), c.Name()}, 2
	}
	if runs := verbs()[noun.Name()+" "+words[0]].runs; runs != "" {
		return strings.Fields(runs), 2
	}
	return nil, 0
}

// instead returns the error for a word of other tools, or of another group; nil if the word has no known meaning.
func instead(group *cobra.Command, args []string) error {
	root, word := group.Root(), strings.ToLower(args[0])
	prefix := strings.TrimPrefix(strings.TrimPrefix(group.CommandPath(), root.Name()), " ")
	v, known := verbs()[strings.TrimPrefix(prefix+" "+word, " ")]
	if group == root && len(args) > 1 { // delete node n1
		if noun := below(root, args[1]); noun != nil {
			if of, ok := verbs()[noun.Name()+" "+word]; ok {
				v, known = of, true
			}
		}
	}
	if v.runs != "" {
		v.use = []string{v.runs}
	}
	if !known {
		v.use = elsewhere(group, word)
	}
	var rows []string
	for _, path := range v.use {
		c, rest := descend(root, strings.Fields(path))
		if c == root {
			continue // weir-local has no such command
		}
		line := strings.TrimSuffix(c.UseLine(), " [flags]")
		if len(rest) > 0 {
			line = c.CommandPath() + " " + strings.Join(rest, " ")
		}
		rows = append(rows, fmt.Sprintf("\n  %s: %s", line, c.Short))
	}
	if len(rows) == 0 && (v.note == "" || len(v.use) > 0) {
		return nil
	}
	text := fmt.Sprintf("%s has no command %q", group.CommandPath(), args[0])
	if v.note != "" {
		text += ": " + v.note
	}
	switch len(rows) {
	case 0:
	case 1:
		text += "; use this command:"
	default:
		text += "; use one of these commands:"
	}
	return usage.New(fmt.Errorf("%s%s\nSee %q", text, strings.Join(rows, ""), group.CommandPath()+" --help"))
}

// elsewhere returns the paths of the commands of a name at the root, or for a word at the root in all groups. After the name of a group the
// commands of other groups are not meant: "signal stop" is not "app stop".
func elsewhere(in *cobra.Command, word string) (paths []string) {
	root := in.Root()
	if c := below(root, word); c != nil && c.IsAvailableCommand() {
		return []string{c.Name()}
	}
	if in != root {
		return nil
	}
	for _, group := range root.Commands() {
		if c := below(group, word); c != nil && c.IsAvailableCommand() && group.Name() != "completion" {
			paths = append(paths, group.Name()+" "+c.Name())
		}
	}
	return paths
}
