package wire

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

// grantAll asks for a lock of each name, is granted it, and returns for how many names rights were asked for.
func (v *vetted) grantAll(names ...string) (asked int) {
	for _, name := range names {
		if !v.known(name) {
			asked++
			v.note(name)
		}
	}
	return asked
}

// numbered are so many names that begin alike.
func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(prefix, i))
	}
	return names
}

// The question for a lock tells what is needed to look for rights, until they were found to be there.
func TestAQuestionForRights(t *testing.T) {
	v := &vetted{}
	e := entryOf(t, "k", "uuid:1")
	for range 2 {
		args, known := v.ask(nil, Plain, e)
		require.False(t, known, "until they were found to be there")
		require.Equal(t, []string{"PUBLISH", "relock_listen:{k}", InboxPrefix + "uuid"}, args)
	}
	v.note("k")
	args, known := v.ask(nil, Plain, e)
	require.True(t, known)
	require.Equal(t, []string{"", "", ""}, args)
	args, _ = v.ask(nil, Route{Publish: "PUBLISH"}, entryOf(t, "other", "uuid:2"))
	require.Empty(t, args[2], "no inbox")
}

// A few names are asked about each; of a million the first ones, and then one in many.
func TestRightsAreAskedForSeldom(t *testing.T) {
	v := &vetted{}
	few := numbered("job:", firstNames-1)
	require.Equal(t, len(few), v.grantAll(few...))
	require.Equal(t, 1, v.grantAll(few[0]), "the 256th question, whatever is known of its name")
	require.Zero(t, v.grantAll(few...))

	for what, names := range map[string]func(i int) string{
		"numbers":     func(i int) string { return fmt.Sprint("order:", i) },
		"random ids":  func(int) string { return "job:" + uuid.NewString() },
		"all random":  func(int) string { return uuid.NewString() },
		"one a user":  func(i int) string { return fmt.Sprintf("user:%d:orders:%d", i%1000, i) },
		"by letters":  func(i int) string { return letters(i) },
		"own prefix":  func(i int) string { return letters(i) + ":lock" },
		"with braces": func(i int) string { return fmt.Sprintf("{order:%d}:lock", i) },
	} {
		const many = 20_000
		v, asked := &vetted{}, 0
		for i := range many {
			asked += v.grantAll(names(i))
		}
		require.LessOrEqual(t, asked, firstNames+maxFamilies+many/vetEvery+1, what)
		require.GreaterOrEqual(t, asked, firstNames, what)
		require.LessOrEqual(t, len(v.names), firstNames)
		require.LessOrEqual(t, len(v.families), maxFamilies)
	}
}

// letters is a number in letters alone.
func letters(i int) string {
	text := ""
	for ; i > 0 || text == ""; i /= 26 {
		text += string(rune('a' + i%26))
	}
	return text
}

// However many names a client has locked, it asks for the rights to the first of another sort.
func TestEachFamilyIsAskedAbout(t *testing.T) {
	v := &vetted{}
	v.grantAll(numbered("order:", 10*firstNames)...)
	require.Equal(t, 1, v.grantAll("invoice:1", "invoice:2", "invoice:3"))
	require.Equal(t, 1, v.grantAll("cleanup", "cleanup"))
}

// Once a holder was refused for want of a right, each name is asked about again. No other failure makes it so.
func TestARefusedHolderMakesRightsDoubtful(t *testing.T) {
	v := &vetted{}
	names := numbered("order:", 2*firstNames)
	v.grantAll(names...)
	for _, err := range []error{
		nil, errors.New("i/o timeout"), &driver.ReplyError{Text: "READONLY You can't write against a read only replica."},
		&driver.ReplyError{Text: "WRONGTYPE Operation against a key holding the wrong kind of value"},
	} {
		require.Equal(t, err, v.heard(err))
		require.LessOrEqual(t, v.grantAll(names[:20]...), 1)
	}
	for _, said := range []string{
		"NOPERM User app has no permissions to run the 'del' command",
		"ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:9.",
	} {
		err := &driver.ReplyError{Text: said}
		require.Equal(t, error(err), v.heard(err))
		require.Equal(t, 20, v.grantAll(names[:20]...), said)
	}
}

func TestFamiliesOfNames(t *testing.T) {
	for name, want := range map[string]string{
		"orders": "orders", "orders:4711": "orders:", "orders:eu": "orders:", "orders:be42": "orders:", "order17": "order",
		"tenant:a:order:9": "tenant:a:order:", "tenant:9:order:9": "tenant:", "{orders:9}:x": "{orders:", "17": "", "f47ac10b-58": "f",
		"größe-7": "größe-", "größe": "größe", "a.b/c_d": "a.b/c_", "": "",
	} {
		require.Equal(t, want, familyOf(name), name)
	}
}
