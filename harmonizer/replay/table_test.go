package replay

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// scenario is one event file, and what the rules demand of it.
type scenario struct {
	name   string // of the file; the number is its row in specs/health-manager.md §7
	given  string
	config func(*apps.Config) // beside the defaults and no noise
	e1, e2 string             // what the originals would do by their rules, where no file tells
	want   []string           // see windows
	why    string             // it differs from the originals
}

// Reasons that more than one scenario has.
const (
	byDeadline = "found by deadline, and repeated after the keep-alive, not by a scan each 20 s"
	onceAlive  = "stopped as soon as both states are whole, and again only after the keep-alive"
)

// emptied is what is wanted of 20 apps of which one stays, and grows.
func emptied() []string {
	want := []string{"START A00/1 @ 131-132 x7"}
	for i := 1; i < 20; i++ {
		want = append(want, fmt.Sprintf("STOP A%02d i%02d @ 301-302", i, i))
	}
	return want
}

// scenarios are the table. want follows from the rules, by hand: both states are
// whole at 12 (a heartbeat period and a tenth after the start); what was never
// seen is missing when the reset grace has passed, at 31, or at 32 if its silence
// since the start has to be longer than 30 s.
var scenarios = []scenario{
	{name: "01_cold_start_missing", given: "A×2, no beats", want: []string{"START A/0..1 @ 31-32 x6"}, why: byDeadline},
	{name: "02_healthy_silent", given: "A×2, both beat"},
	{name: "03_one_missing", given: "A×2, only index 0 beats", want: []string{"START A/1 @ 31-32 x6"}, why: byDeadline},
	{name: "05_pending_package", given: "package PENDING, no beats"},
	{name: "06_failed_package", given: "package FAILED, no beats"},
	{name: "07_stopped_app_running", given: "A STOPPED, i0 and i1 beat",
		want: []string{"STOP A i0 @ 12-13 x5", "STOP A i1 @ 12-13 x5"}, why: onceAlive},
	{name: "08_extra_index", given: "A×1, i0 and i1 beat", want: []string{"STOP A i1 @ 12-13 x5"}, why: onceAlive},
	{name: "10_wrong_version_with_right_running", given: "v1 and v2 beat at index 0, v2 is live",
		want: []string{"STOP A i0 @ 12-13 x5"}, why: onceAlive},
	{name: "11_scale_down", given: "from 2 to 1 at 101, told by droplet.updated", want: []string{"STOP A i1 @ 101-102 x4"}, why: onceAlive},
	{name: "13_crash_once", given: "crash of i0 at 101, a new copy beats at 106", want: []string{"START A/0 @ 101-102"}},
	{name: "14_crash_twice_flapping", given: "crashes at 101 and 106",
		want: []string{"START A/0 @ 101-102", "RESTART A/0 @ 166-167"}},
	{name: "15_crash_every_500s_backoff", given: "a crash each 500 s, no beats",
		want: []string{"START A/0 @ 101-102 x17",
			"RESTART A/0 @ 661 721 781 841 901 961 1021 1081 1221 1341 1461 1581 1841 2081"},
		why: "after the fifth crash it is given up; before, each restart is repeated after its own delay"},
	{name: "17_crash_every_502s_never_flaps", given: "a crash each 502 s, no beats", want: []string{"START A/0 @ 101-102 x17 603-604 x17 1105-1106 x17"}, why: byDeadline},
	{name: "18_dea_shutdown", given: "DEA_SHUTDOWN at 101", want: []string{"START A/0 @ 101-102"}},
	{name: "19_dea_evacuation", given: "DEA_EVACUATION at 101", want: []string{"START A/0 @ 101-102"}},
	{name: "20_exit_stopped", given: "exit STOPPED at 101, A still wants 1", want: []string{"START A/0 @ 131-132 x2"}, why: byDeadline},
	{name: "21_unknown_app_running", given: "Z, which nobody knows, beats", want: []string{"STOP Z z0 @ 181-193 x3"}, why: onceAlive},
	{name: "23_bulk_down_forever", given: "the bulk API is down from 101 on, i0 beats",
		why: "a source that is away says nothing: it stops no app"},
	{name: "24_bulk_down_from_start", given: "the bulk API is down from the start, i0 beats",
		why: "a source that was never read says nothing: it stops no app"},
	{name: "25_duplicates", given: "i0 and the younger i9 run at index 0, until 31",
		e1: "the newcomer, at each of its beats", e2: "both, in turns",
		want: []string{"STOP A i9 @ 12-34"}, why: "exactly one is stopped, by a stable rule, and it is not the survivor"},
	{name: "25_duplicates_same_node", given: "i0 STARTING and the younger i9 RUNNING at index 0, until 31",
		e1: "the newcomer, at each of its beats", e2: "both, in turns",
		want: []string{"STOP A i0 @ 12-34"}, why: "RUNNING survives STARTING, then the oldest, then the smallest id"},
	{name: "25_duplicates_three", given: "i0, i1, i2 run at index 0; i2 until 61, i1 until 131",
		e1: "the newcomers, at each of their beats", e2: "all, in turns",
		want: []string{"STOP A i2 @ 12-34 42-65", "STOP A i1 @ 71-125"}, why: "one for each confirmation: the next when the first is gone"},
	{name: "26_duplicates_while_missing", given: "i0 and i9 run at index 0; index 1 is missing until 101",
		e1: "the newcomer, at each of its beats", e2: "both, in turns",
		want: []string{"START A/1 @ 31-32 x3", "STOP A i9 @ 101-103"}, why: "no duplicate is stopped while another index is missing"},
	{name: "27_starting_then_replaced", given: "i0 STARTING for 80 s, then i9 STARTING"},
	{name: "29_queue_dedupe", given: "three exits of i0 in one second", want: []string{"START A/0 @ 41-42"}},
	{name: "30_batch_of_40", given: "A×100, no beats", want: []string{
		"START A/0..39 @ 31-32", "START A/40..79 @ 32-33", "START A/80..99 @ 33-34"}},
	{name: "32_updated_while_bulk_down", given: "droplet.updated while the bulk API is down, then silence"},
	{name: "33_crashed_heartbeat_status", given: "only a CRASHED beat of x at 41; crashes are asked for at 41 and at 561",
		want: []string{"START A/0 @ 41-73 x17", "ANSWER R @ 41 561"}, why: byDeadline},
	{name: "35_numeric_droplet_id", given: "beats of the number 7, the row of \"7\""},
	{name: "36_bus_down", given: "the bus is down from 41 to 161, no beats after",
		want: []string{"START A/0 @ 191-192"}, why: "silence counts from the moment that we hear again"},
	{name: "37_flapping_missing_policy", given: "the crash of i0 told twice, no beats after",
		want: []string{"START A/0 @ 101-102 x11"}, why: "a copy crashes once, however often that is told"},
	{name: "39_exit_other_guid", given: "exits STOPPED and CRASHED of a copy that is not there, i0 beats",
		why: "i0 runs: the exit of another copy changes nothing"},
	{name: "40_old_version_crash", given: "a crash of v1 while v2 is live and runs",
		e1: "START A/0", e2: "START A/0", why: "an exit of what should not run anyway starts nothing"},
	{name: "41_index_out_of_range_crash", given: "a crash of index 5 of A×1", why: "the index is not desired"},
	{name: "42_stopped_app_crash", given: "a crash while A is STOPPED", why: "nothing of it is desired"},
	{name: "45_instances_zero", given: "A×0, i0 beats", want: []string{"STOP A i0 @ 12-13 x3"}, why: onceAlive},
	{name: "47_recovery_does_not_cancel_pending", given: "crashes at 101 and 103, a copy beats from 108 on",
		want: []string{"START A/0 @ 101-102"}, why: "recovery cancels the restart that waits"},
	{name: "49_stop_start_resets_crash_count", given: "a crash, A STOPPED for 30 s and STARTED, a crash",
		want: []string{"START A/0 @ 101-102 135-136"}},
	{name: "50_gc_then_reseen", given: "B deleted at 31, its node lists it no more", why: "a deleted app is never started"},
	{name: "52_giveup_with_fast_crashes", given: "six crashes of copies that never beat, i0 beats until 91",
		want: []string{"START A/0 @ 122 x30"},
		why:  "while i0 runs the exits of others change nothing; it is lost at 122"},
	{name: "53_strict_limit", given: "the last beat at 31", e1: "START A/0", e2: "START A/0",
		want: []string{"START A/0 @ 62"}},
	{name: "54_forgotten", given: "B deleted at 100, crash of its copy at 101", e1: "START B/0", e2: "START B/0",
		why: "an exit of what should not run anyway starts nothing"},
	{name: "62_giveup_off", given: "giveup_crash_number 0, seven crashes",
		config: func(c *apps.Config) { c.GiveupCrashNumber = new(0) }, e1: "the same", e2: "the same",
		want: []string{"START A/0 @ 101-102", "ANSWER R @ 2026",
			"RESTART A/0 @ 171-172 301-302 551-552 1041-1042 1531-1532 2021-2022"}},
	{name: "62_decay", given: "two crashes, the copy runs well from 180 on, a crash at 705", e1: "the same", e2: "the same",
		want: []string{"START A/0 @ 101-102 705-706", "RESTART A/0 @ 171-172"}},
	{name: "62_given_up_ended", given: "five crashes from 101 on; new version at 400",
		e1: "START A/0; RESTART A/0", e2: "START A/0; RESTART A/0",
		want: []string{"START A/0 @ 101-102 430-431", "ANSWER R @ 300"}, why: "giving up takes back the restart that waits"},
	{name: "72_bus_down_and_back", given: "the bus is down from 95 to 131, both beat on", e1: "nothing", e2: "nothing"},
	{name: "73_not_fresh", given: "asked in the first second", want: []string{"ANSWER R @ 1 1"},
		why: "answers tell that the states are not whole yet"},
	{name: "76_recovered", given: "silent from 31 to 61", e1: "nothing", e2: "nothing"},
	{name: "77_not_listed", given: "its node lives, and lists index 1 no more after 31", e1: "START A/1", e2: "START A/1",
		want: []string{"START A/1 @ 62-72"}},
	{name: "78_pending_not_stopped", given: "v2 is live and PENDING, v1 runs; v2 staged at 101, runs from 111 on",
		e1: "STOP A i0 each 20 s", e2: "STOP A i0 each 20 s",
		want: []string{"STOP A i0 @ 111-112 x2"}, why: "a wrong version is stopped when the live one runs"},
	{name: "82_evacuating", given: "EVACUATING from 51 on, its replacement STARTING at 61, RUNNING at 71",
		e1: "START A/0", e2: "START A/0",
		want: []string{"START A/0 @ 51-52", "STOP A i0 @ 71-72"}, why: "EVACUATING is a state: start first, stop when the new copy runs"},
	{name: "82_evacuating_alone", given: "EVACUATING from 51 on, nobody replaces it", e1: "START A/0", e2: "START A/0",
		want: []string{"START A/0 @ 51-52 x2"}, why: "EVACUATING is a state, not silence"},
	{name: "82_evacuating_undesired", given: "EVACUATING at an index that is not desired", e1: "nothing", e2: "nothing",
		want: []string{"STOP A i1 @ 12-13"}, why: "an extra copy is stopped whatever its node does"},
	{name: "83_evacuating_and_missing", given: "index 0 EVACUATING from 51 on, index 1 never there",
		e1: "START A/1; START A/0", e2: "START A/1; START A/0",
		want: []string{"START A/1 @ 31-32 x2", "START A/0 @ 51-52"}, why: "EVACUATING is a state, not silence"},
	{name: "91_verified", given: "queue_batch_size 1, A×6; all run at 34",
		config: func(c *apps.Config) { c.QueueBatchSize = 1 }, e1: "START A/0..5", e2: "START A/0..5",
		want: []string{"START A/0 @ 31-32", "START A/1 @ 32-33", "START A/2 @ 33-34", "START A/3 @ 34"}, why: "verified before it is sent"},
	{name: "96_reporter", given: "a crash at 101 and at 103; asked at 104",
		want: []string{"START A/0 @ 101-102", "ANSWER R1 @ 104", "ANSWER R2 @ 104", "ANSWER R3 @ 104",
			"ANSWER R5 @ 104 104 104", "ANSWER R6 @ 104"}, why: "an app that is not known is answered too"},
	{name: "97_brake", given: "40 copies; 30 silent after 41, 20 of them back at 121", e1: "START A/10..39", e2: "START A/10..39",
		want: []string{
			"START A/10..13 @ 81-82 111-113", "START A/14..17 @ 82-83 112-114",
			"START A/18..21 @ 83-84 113-115", "START A/22..25 @ 84-85 114-116",
			"START A/26..29 @ 85-86 115-117", "START A/30..33 @ 86-87 116-118 146-149",
			"START A/34..37 @ 87-88 117-119 147-150", "START A/38..39 @ 88-89 118-120 148-151"}, why: "too many at once: held until the bus is proven whole, then a tenth of the rate"},
	{name: "97_brake_all_silent", given: "40 copies; all silent after 41, 10 of them back at 201", e1: "START A/0..39", e2: "START A/0..39",
		want: []string{
			"START A/10..13 @ 211-212", "START A/14..17 @ 212-213",
			"START A/18..21 @ 213-214", "START A/22..25 @ 214-215",
			"START A/26..29 @ 215-216", "START A/30..33 @ 216-217",
			"START A/34..37 @ 217-218", "START A/38..39 @ 218-219"}, why: "if nobody is heard it may be us; a lost node that comes back counts with its next beat: the others had their turn"},
	{name: "98_grace_scale_up", given: "from 1 to 2 at 101, told by droplet.updated", e1: "START A/1", e2: "START A/1",
		want: []string{"START A/1 @ 131-132"}},
	{name: "98_grace_staged", given: "PENDING, staged at 101, no beats", e1: "START A/0..1", e2: "START A/0..1",
		want: []string{"START A/0..1 @ 131-132 x2"}, why: "what is staged is the controller's to start first"},
	{name: "98_grace_new_version", given: "v2 at 101, STARTING at 111, RUNNING at 121",
		e1: "STOP A i0", e2: "STOP A i0",
		want: []string{"STOP A i0 @ 121-122"}, why: "a wrong version is stopped when the live one runs"},
	{name: "98_new_app", given: "B created at 101, beats from 121 on", e1: "nothing", e2: "nothing"},
	{name: "99_deleted_while_missing", given: "B never seen, deleted at 21", e1: "START B/0", e2: "START B/0",
		why: "a deleted app is never started"},
	{name: "99_deleted_runs_on", given: "B deleted at 31, its copy beats on", e1: "STOP B b0", e2: "STOP B b0",
		want: []string{"STOP B b0 @ 211-212"}, why: "it counts from when the source lacked it first"},
	{name: "99_bad_row", given: "B's row lacks its instances, A's too from 31 on; index 0 of A unlisted from 31 to 71",
		e1: "reads nothing of either", e2: "reads nothing of either",
		want: []string{"START A/0 @ 52-62"}, why: "one bad row does not end the pass: the row that was known stands"},
	{name: "99_empty_world", given: "20 apps run; from 101 on one row only, with an instance more",
		e1: "STOP A01 i01; …; START A00/1", e2: "STOP A01 i01; …; START A00/1",
		want: emptied(), why: "many rows gone at once are rather a fault of the source: a pass that confirms it after expected_state_lost, at 301, ends that"},
	{name: "99_empty_world_back", given: "20 apps run; no row is told from 101 to 241",
		e1: "STOP A00 i00; …", e2: "STOP A00 i00; …", why: "nothing was stopped when the rows are back"},
	{name: "99_other_harmonizer", given: "lost after 31; another harmonizer asks for the start at 61", e1: "START A/0", e2: "START A/0",
		why: "what another one asked for is not repeated within the keep-alive"},
	{name: "99_partition", given: "cc_partition default; beats of another one, and of none",
		config: func(c *apps.Config) { c.Partition = "default" }, e1: "START A/0", e2: "does not look",
		want: []string{"START A/0 @ 31-32"}, why: byDeadline},
	{name: "99_bad_messages", given: "messages that cannot be read, i0 beats", e1: "breaks", e2: "breaks",
		why: "a message that cannot be read is a finding, and changes nothing"},
}
