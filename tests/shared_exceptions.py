"""The tests that cannot hold over a shared log, by reason; ``--shared`` skips them."""

from __future__ import annotations

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    "it has shared logs of its own": ("shared/",),
    "a process that it starts opens the file without the log, and may only read": (
        "care/test_backup.py::test_a_backup_beside_writers_is_one_moment_and_loses_nothing",
        "care/test_doctor.py::test_others_who_have_the_file_open_go_on",
        "care/test_left_behind.py::test_an_erasure_removes_what_a_killed_backup_left",
        "care/test_left_behind.py::test_the_doctor_names_what_a_killed_backup_left_wherever_it_lies",
        "care/test_left_behind.py::test_the_next_open_for_writing_removes_what_a_killed_copy_left_wherever_it_lies",
        "care/test_left_behind.py::test_the_next_open_removes_the_lock_of_a_copy_that_was_killed_without_its_file",
        "care/test_replay.py::test_one_that_is_killed_leaves_no_file_of_that_name",
        "doors/test_eventsourcing.py::test_a_runner_follows_what_other_processes_commit",
        "doors/test_http.py::test_a_server_that_is_killed_loses_nothing_that_it_answered_and_a_retry_doubles_nothing",
        "doors/test_http.py::test_sigterm_ends_the_server_and_its_streams_with_exit_code_0",
        "erasure/test_erase.py::test_a_kill_at_any_point_is_made_good",
        "history/test_bulk.py::test_an_act_that_is_killed_leaves_nothing",
        "history/test_bulk.py::test_the_erasure_of_a_user_goes_on_where_it_was_killed",
        "history/test_log.py::test_a_follower_gets_what_was_there_and_what_another_process_commits",
        "interactions/test_import_processes.py::test_two_processes_that_import_a_file_at_once_take_each_line_once",
        "jobs/test_running.py::test_a_killed_worker_leaves_its_work_to_the_next_and_nothing_is_there_twice",
        "jobs/test_running.py::test_the_command_finishes_what_is_under_way_when_it_is_asked_to_end",
        "log/test_in_place.py::test_a_backup_a_rebuild_and_a_checkpoint_of_another_process_are_no_mishap",
        "log/test_in_place.py::test_a_checkpoint_of_another_process_is_noted_for_all",
        "log/test_in_place.py::test_a_checkpoint_that_was_killed_stops_nobody",
        "log/test_in_place.py::test_a_copy_that_lies_under_another_process_too_stops_both",
        "log/test_in_place.py::test_a_ledger_that_is_copied_with_its_wal_opens_with_all_of_it",
        "log/test_in_place.py::test_a_wal_of_another_file_is_not_read_into_this_one",
        "log/test_in_place.py::test_another_programs_change_stops_writing_until_the_ledger_is_opened_again",
        "log/test_in_place.py::test_the_end_of_a_process_writes_nothing_into_what_was_copied_over",
        "log/test_processes.py::test_a_cold_start_of_many_processes_makes_one_ledger",
        "log/test_processes.py::test_eight_writers_of_which_one_rebuilds_and_two_readers",
        "log/test_processes.py::test_one_key_and_one_name_from_many_processes_count_once",
        "observations/test_observations.py::test_two_processes_that_see_the_same_make_one_observation_of_it",
        "sessions/test_session_compact.py::test_a_holder_that_was_killed_holds_nothing",
        "sessions/test_session_compact.py::test_the_second_of_two_compacting_processes_reports_the_first",
    ),
    "it writes to the file behind the log's back": (
        "care/test_cut_short.py::test_a_log_cut_short_under_an_open_ledger_is_told_by_its_next_command",
        "care/test_cut_short.py::test_a_log_cut_short_is_told_by_every_open_for_writing_and_nothing_is_written[everything]",
        "care/test_cut_short.py::test_a_log_cut_short_is_told_by_every_open_for_writing_and_nothing_is_written"
        "[everything, and no checkpoint]",
        "care/test_cut_short.py::test_an_edit_that_sets_back_what_was_folded_too_is_found_by_verify_alone",
        "core/test_batch.py::test_another_process_may_write_between_the_parts_of_a_batch",
        "log/test_foreign.py::test_nothing_is_written_behind_a_foreign_row_and_the_error_says_the_way_out[by hand-True]",
        "log/test_foreign.py::test_nothing_is_written_behind_a_foreign_row_and_the_error_says_the_way_out"
        "[of an older version-True]",
        "log/test_foreign.py::test_no_ledger_begins_next_to_the_tables_of_an_application",
        "log/test_foreign.py::test_the_librarys_other_recorders_are_refused_too",
    ),
    "it appends or gives a command in a transaction of the file alone": (
        "care/test_doctor.py::test_a_commit_that_comes_between_the_copy_and_its_pouring_is_not_lost",
        "doors/test_eventsourcing.py::test_a_row_that_is_no_event_ends_the_runner_by_its_position",
        "doors/test_eventsourcing.py::test_what_a_newer_version_wrote_is_followed_as_unknown",
        "doors/test_eventsourcing.py::test_what_cannot_be_followed_is_refused_by_name",
        "log/test_evolution.py::test_a_log_for_newer_readers_is_refused_by_name_and_looked_after_all_the_same",
        "log/test_evolution.py::test_a_log_for_newer_writers_is_read_and_not_written",
        "log/test_evolution.py::test_a_process_that_has_the_file_open_decides_nothing_beside_what_it_cannot_read",
        "log/test_evolution.py::test_an_event_that_no_upgrade_explains_is_damage_to_read_beside_and_not_to_write_beside",
        "log/test_evolution.py::test_an_upgrade_in_words_that_this_version_cannot_read_asks_for_a_newer_one",
        "log/test_evolution.py::test_an_upgrade_that_asks_for_nothing_new_stops_nobody",
        "log/test_evolution.py::test_nor_where_whoever_wrote_it_has_folded_it",
        "log/test_evolution.py::test_recover_copies_a_log_up_to_what_no_upgrade_explains",
        "log/test_evolution.py::test_the_last_upgrade_counts_whether_the_trail_can_be_asked_or_not",
        "log/test_evolution.py::test_what_a_newer_version_wrote_is_kept_bit_for_bit_wherever_it_goes",
        "log/test_evolution.py::test_what_a_newer_version_wrote_is_shown_as_unknown",
        "log/test_foreign.py::test_behind_an_upgrade_such_a_row_is_of_a_newer_version_and_kept",
        "log/test_two_versions.py::test_a_field_that_a_newer_version_added_is_passed_over_and_kept_as_it_is",
        "log/test_two_versions.py::test_a_process_of_another_version_notices_an_upgrade_before_it_writes",
        "log/test_two_versions.py::test_a_reader_of_another_version_follows_who_writes",
        "log/test_two_versions.py::test_each_version_computes_the_tables_its_own_way_and_loses_nothing",
        "log/test_two_versions.py::test_versions_that_take_turns_in_writing_lose_nothing",
        "log/test_two_versions.py::test_what_a_field_of_a_newer_version_says_is_erased_by_that_version",
        "log/test_two_versions.py::test_what_is_erased_by_one_version_is_in_no_table_of_the_other",
        "log/test_two_versions.py::test_who_had_the_file_open_before_the_other_is_refused_until_it_opens_it_again",
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
        "log/test_readonly.py::test_a_file_and_a_directory_without_write_permission_can_be_read",
        "log/test_readonly.py::test_a_file_for_newer_writers_is_read_and_not_written",
        "log/test_readonly.py::test_a_read_only_mount_can_be_read",
        "log/test_readonly.py::test_projections_of_another_version_are_folded_privately",
        "observations/test_consolidate_model.py::test_a_model_is_not_asked_where_nothing_can_be_written",
        "recall/test_recall.py::test_recall_works_where_nothing_can_be_written",
        "recall/test_reopen.py::test_a_reader_of_the_file_gives_no_receipt",
        "whole/test_bad_input.py::test_a_ledger_opened_for_reading_takes_no_command",
    ),
    "a suspension and a rebuild are of this machine and no events": (
        "care/test_care.py::test_one_projection_is_made_again_with_those_that_read_it_and_no_other",
        "projections/test_parking.py::test_a_poisoned_event_parks_one_projection_and_its_command_commits",
        "projections/test_parking.py::test_a_poisoned_message_parks_one_projection_and_its_command_commits",
        "projections/test_parking.py::test_a_rebuild_that_meets_the_poison_parks_too",
        "projections/test_parking.py::test_an_essential_projection_parked_means_read_only",
        "projections/test_parking.py::test_another_process_that_was_open_sees_what_is_parked_and_what_is_resumed",
        "projections/test_parking.py::test_poison_inside_a_batch_parks_and_the_batch_goes_on",
        "projections/test_parking.py::test_rows_that_the_database_does_not_take_park_too",
        "projections/test_parking.py::test_the_event_that_parks_says_the_kind_of_error_and_never_the_text",
        "projections/test_rebuild.py::test_a_rebuild_that_somebody_asks_for_is_recorded_and_one_on_opening_is_not",
        "proof/test_verify.py::test_a_row_that_the_log_does_not_give_is_told"
        "[UPDATE projections SET suspended_at = 5 WHERE name = 'memories'-says that it is suspended, and the log does not]",
        "projections/test_rebuild.py::test_the_digest_of_the_rows_is_equal_after_any_rebuild",
    ),
    "an erasure is completed by an event of each machine and a last one": (
        "core/test_at.py::test_what_was_erased_since_is_erased_at_every_moment",
        "erasure/test_erase.py::test_an_erased_memory_says_nothing_any_more",
        "history/test_bulk.py::test_what_a_user_writes_while_all_is_erased_goes_too",
    ),
    "it compares all of a file, and that of a machine has one table more": (
        "erasure/test_guesses.py::test_a_redacted_number_leaves_no_trace_in_the_file_of_an_import",
        "erasure/test_guesses.py::test_files_that_differ_in_an_erased_number_are_the_same_afterwards",
        "projections/test_damage.py::test_a_damaged_log_is_no_damaged_row_and_stays_as_it_is",
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
IN_MEMORY: dict[str, tuple[str, ...]] = {
    "a process that it forks has another log in memory": (
        "log/test_processes.py::test_a_rebuild_killed_while_another_writes_costs_nothing",
        "log/test_processes.py::test_what_was_answered_survives_a_kill_of_the_writers_at_any_time",
    ),
}
REASONS = {place: reason for reason, places in EXCEPTIONS.items() for place in places}
REASONS_IN_MEMORY = {place: reason for reason, places in IN_MEMORY.items() for place in places}


def reason_of(node: str, *, in_memory: bool = False) -> str:
    """Return why a test is left out; "" if it runs."""
    case = node.removeprefix("tests/")
    name = case.partition("[")[0]
    file = name.partition("::")[0]
    folder = file.partition("/")[0] + "/"
    reasons = REASONS | REASONS_IN_MEMORY if in_memory else REASONS
    return next((reasons[place] for place in (case, name, file, folder) if place in reasons), "")
