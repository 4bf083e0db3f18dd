<?php

// A receiver of webhooks. A folder remembers the messages that were handled, one file for each; a table of your database
// does the same in the transaction of your work.
//
//     WEBHOOK_SECRET=whsec_… php -S 127.0.0.1:9000 receiver.php

/** The raw body is file_get_contents('php://input'). Header names are lower case. */
function verify(string $secret, array $headers, string $body): bool
{
    $id = $headers['webhook-id'] ?? '';
    $timestamp = $headers['webhook-timestamp'] ?? '';
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false;
    }
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $entry) {
        if (hash_equals($expected, $entry)) {
            return true;
        }
    }
    return false;
}

/** Your work. An exception is answered with 500, and Sluice sends the message again. */
function handle(string $id, string $body): void
{
    file_put_contents('php://stdout', "handled $id\n");
}

/** The status of the answer. */
function receive(array $headers, string $body): int
{
    if (!verify(getenv('WEBHOOK_SECRET'), $headers, $body)) {
        return 401;
    }
    $id = $headers['webhook-id'];
    $folder = getenv('HANDLED_FOLDER') ?: sys_get_temp_dir() . '/handled-webhooks';
    @mkdir($folder, 0700, true);
    $file = fopen("$folder/" . hash('sha256', $id), 'c+');
    // The lock ends with the process, so that a crash does not keep the message.
    if (!flock($file, LOCK_EX | LOCK_NB)) {
        header('Retry-After: 5');
        return 409;
    }
    if (fgets($file) !== 'handled') {
        handle($id, $body);
        fwrite($file, 'handled');
        fflush($file);
    }
    return 200;
}

$maxBodyBytes = 2 * 1024 * 1024;
$body = file_get_contents('php://input', length: $maxBodyBytes + 1);
$headers = array_change_key_case(getallheaders());
http_response_code(strlen($body) > $maxBodyBytes ? 413 : receive($headers, $body));
