"""The tests that cannot hold over a shared log, by reason; ``--shared`` skips them."""

from __future__ import annotations

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "it has shared logs of its own": ("shared/",),
    "a process that it starts opens the file without the log, and may only read": (
        "care/test_left_behind.py::test_an_erasure_removes_what_a_killed_backup_left",
        "care/test_left_behind.py::test_the_doctor_names_what_a_killed_backup_left_wherever_it_lies",
        "care/test_left_behind.py::test_the_next_open_for_writing_removes_what_a_killed_copy_left_wherever_it_lies",
        "care/test_left_behind.py::test_the_next_open_removes_the_lock_of_a_copy_that_was_killed_without_its_file",
        "doors/test_eventsourcing.py::test_a_runner_follows_what_other_processes_commit",
        "erasure/test_erase.py::test_a_kill_at_any_point_is_made_good",
        "history/test_bulk.py::test_an_act_that_is_killed_leaves_nothing",
        "history/test_bulk.py::test_the_erasure_of_a_user_goes_on_where_it_was_killed",
        "history/test_log.py::test_a_follower_gets_what_was_there_and_what_another_process_commits",
        "interactions/test_import_processes.py::test_two_processes_that_import_a_file_at_once_take_each_line_once",
        "log/test_in_place.py",
        "observations/test_observations.py::test_two_processes_that_see_the_same_make_one_observation_of_it",
        "sessions/test_session_compact.py::test_a_holder_that_was_killed_holds_nothing",
        "sessions/test_session_compact.py::test_the_second_of_two_compacting_processes_reports_the_first",
    ),
    "it opens a copy of the file, and the copy catches up with the log": (
        "core/test_expected.py",
        "erasure/test_erase.py::test_a_certificate_erases_the_same_in_an_older_backup",
        "erasure/test_erase.py::test_certificates_of_one_row_erased_twice_apply_in_their_order",
        "proof/test_verified_open.py::test_an_older_copy_opens_unless_a_checkpoint_is_given",
        "proof/test_verify.py::test_a_checkpoint_that_was_sealed_wrongly_is_told_and_not_gone_on_from",
    ),
    "it writes to the file behind the log's back": (
        "care/test_cut_short.py::test_a_log_cut_short_under_an_open_ledger_is_told_by_its_next_command",
        "care/test_cut_short.py::test_an_edit_that_sets_back_what_was_folded_too_is_found_by_verify_alone",
        "core/test_batch.py::test_another_process_may_write_between_the_parts_of_a_batch",
        "log/test_foreign.py::test_no_ledger_begins_next_to_the_tables_of_an_application",
        "log/test_foreign.py::test_the_librarys_other_recorders_are_refused_too",
    ),
    "it appends or gives a command in a transaction of the file alone": (
        "doors/test_eventsourcing.py::test_a_row_that_is_no_event_ends_the_runner_by_its_position",
        "doors/test_eventsourcing.py::test_what_a_newer_version_wrote_is_followed_as_unknown",
        "doors/test_eventsourcing.py::test_what_cannot_be_followed_is_refused_by_name",
        "log/test_evolution.py",
        "log/test_foreign.py::test_behind_an_upgrade_such_a_row_is_of_a_newer_version_and_kept",
        "log/test_two_versions.py",
        "proof/test_checkpoints.py::test_an_erased_row_leaves_every_checkpoint_as_it_was",
        "proof/test_prove.py::test_an_erased_event_is_still_proven_and_its_state_is_not",
        "proof/test_verify.py::test_a_forged_erasure_is_found",
        "proof/test_verify.py::test_an_erased_row_is_sound_and_so_is_one_erased_twice",
        "proof/test_verify.py::test_an_erased_text_outside_the_log_is_sound",
        "proof/test_verify.py::test_an_erasure_behind_a_sealed_checkpoint_is_looked_at",
        "proof/test_verify.py::test_an_erasure_cannot_be_of_what_comes_after_it",
        "proof/test_verify.py::test_an_erasure_forged_behind_a_sealed_checkpoint_is_found",
        "proof/test_verify.py::test_an_erasure_that_names_another_state_or_no_row_is_found",
        "proof/test_verify.py::test_what_is_sealed_and_erased_soundly_is_skipped_still",
    ),
    "it gives commands to a file without the log, and the refusal speaks of the log": (
        "aio/test_async_ledger.py::test_a_readonly_ledger_is_read",
        "core/test_group_commit.py::test_a_readonly_ledger_refuses_commands_as_ever",
        "extraction/test_adding.py::test_a_ledger_for_reading_shows_what_would_be_added",
        "log/test_readonly.py",
        "observations/test_consolidate_model.py::test_a_model_is_not_asked_where_nothing_can_be_written",
        "projections/test_damage.py",
        "projections/test_hostile_rows.py",
        "recall/test_recall.py::test_recall_works_where_nothing_can_be_written",
        "recall/test_reopen.py::test_a_reader_of_the_file_gives_no_receipt",
        "whole/test_bad_input.py::test_a_ledger_opened_for_reading_takes_no_command",
    ),
    "a suspension and a rebuild are of this machine and no events": (
        "care/test_care.py::test_one_projection_is_made_again_with_those_that_read_it_and_no_other",
        "projections/test_parking.py",
        "projections/test_rebuild.py::test_a_rebuild_that_somebody_asks_for_is_recorded_and_one_on_opening_is_not",
        "projections/test_rebuild.py::test_the_digest_of_the_rows_is_equal_after_any_rebuild",
    ),
    "an erasure is completed by an event of each machine and a last one": (
        "core/test_at.py::test_what_was_erased_since_is_erased_at_every_moment",
        "erasure/test_erase.py::test_an_erased_memory_says_nothing_any_more",
        "history/test_bulk.py::test_what_a_user_writes_while_all_is_erased_goes_too",
    ),
    "it compares all tables of a file, and a copy has one more": (
        "erasure/test_guesses.py::test_a_redacted_number_leaves_no_trace_in_the_file_of_an_import",
        "erasure/test_guesses.py::test_files_that_differ_in_an_erased_number_are_the_same_afterwards",
        "projections/test_rebuild.py::test_a_new_ledger_is_what_its_statements_make",
        "tools/test_format_pages.py::test_the_page_of_the_tables_is_current",
    ),
    "a commit that fails in the file alone is in the log already": (
        "aio/test_async_ledger.py::test_a_failed_commit_fails_every_task_of_the_group",
        "core/test_group_commit.py::test_a_commit_that_fails_fails_its_whole_group",
    ),
    "it looks in the file for a lease that is in the log": (
        "jobs/test_running.py::test_a_piece_that_another_worker_holds_is_left_to_it",
        "models/test_asked_by_policies.py::test_a_worker_leaves_a_piece_whose_lease_somebody_else_has_taken",
        "models/test_asked_by_policies.py::test_the_lease_of_a_session_lasts_as_long_as_a_call_may",
    ),
    "a batch over a shared log has another bound of time": (
        "core/test_batch.py::test_a_batch_commits_at_its_bound_of_time_and_goes_on",
    ),
}
REASONS = {place: reason for reason, places in EXCEPTIONS.items() for place in places}


def reason_of(node: str) -> str:
    """Return why a test is left out; "" if it runs."""
    name = node.partition("[")[0].removeprefix("tests/")
    file = name.partition("::")[0]
    folder = file.partition("/")[0] + "/"
    return next((REASONS[place] for place in (name, file, folder) if place in REASONS), "")
